"""Buckets: their fields, checks and IAM policies."""
