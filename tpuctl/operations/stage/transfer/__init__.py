"""Transfers between files and buckets, in parts and in parallel."""
