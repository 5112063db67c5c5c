"""Checks of this machine and of what is configured on it."""
