"""Scenarios and faults: what goes wrong, and when."""
