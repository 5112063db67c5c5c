"""The disk of a simulated worker and the root file system on it."""
