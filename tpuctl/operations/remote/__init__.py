"""Connections to all workers of a node at once, and programs shipped to them."""
