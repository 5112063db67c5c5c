"""Requests sent to a server at a given rate, and what is measured of their answers."""
