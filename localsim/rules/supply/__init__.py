"""Capacity, quota and reservations."""
