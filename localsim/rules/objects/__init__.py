"""What lies in the buckets: rules and rows, bytes on disk, and nothing of any wire."""
