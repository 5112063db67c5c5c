"""How long objects stay: soft deletion, and the retention of a single object."""
