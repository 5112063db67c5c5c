"""Buckets, objects and all else of Cloud Storage as resources of the JSON API."""
