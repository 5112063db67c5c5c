"""Folders of buckets with a hierarchical namespace, and managed folders of any bucket."""
