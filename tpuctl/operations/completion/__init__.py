"""The values that a shell offers: from this machine alone, and fresh for the next time."""
