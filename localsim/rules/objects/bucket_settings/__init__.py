"""The settings of buckets: what may be set, checked field by field, and what follows from them."""
