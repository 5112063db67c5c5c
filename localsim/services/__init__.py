"""Thin wire views of the simulated cloud: a row per method, no rules."""
