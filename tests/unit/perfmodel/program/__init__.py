"""Programs as lists of operations."""
