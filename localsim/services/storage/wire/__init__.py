"""Requests, replies and errors of the JSON API of Cloud Storage, and its faults."""
