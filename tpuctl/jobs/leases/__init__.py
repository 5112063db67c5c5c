"""Leases, heartbeats and fences: one supervisor at a time acts on a job."""
