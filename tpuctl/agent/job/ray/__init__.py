"""The Ray cluster of an attempt: Ray's own programs, started on every worker."""
