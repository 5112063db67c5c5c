"""Reading steps: history, verification, restoring, statistics."""
