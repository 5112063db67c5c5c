"""Object bodies as files, and the database beside them."""
