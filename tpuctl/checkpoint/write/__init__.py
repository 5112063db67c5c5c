"""Saving a step: snapshot, upload of the parts, COMMIT, garbage collection."""
