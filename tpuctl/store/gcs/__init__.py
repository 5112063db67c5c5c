"""The store over a bucket of Cloud Storage."""
