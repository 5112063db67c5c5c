"""Copies between this machine, buckets and workers: planned, sent, verified."""
