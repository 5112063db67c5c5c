"""Dynamic batching: which requests share a batch, how it is padded, and how results are split."""
