"""Nodes and queued resources: specifications, creation, waiting, quota, cost."""
