"""Trees of arrays: leaves of numpy, JAX and torch, dtypes, boxes, coverage."""
