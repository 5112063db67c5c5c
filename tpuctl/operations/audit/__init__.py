"""Checks across a whole context: what is left over, what is missing, what is recorded."""
