"""Checks of what the cloud of the context has, and of what it lets the caller do."""
