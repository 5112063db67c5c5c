"""Checks of one node, or of one job."""
