"""A simulator for tests: as a context manager, and as fixtures of pytest."""
