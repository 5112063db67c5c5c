"""Checkpoint directories, our own and those of other frameworks."""
