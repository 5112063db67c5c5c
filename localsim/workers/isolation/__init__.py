"""Isolation of workers from each other: one interface, two modes."""
