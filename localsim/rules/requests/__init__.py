"""The life of queued resources."""
