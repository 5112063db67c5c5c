"""Transfers to and from workers over SSH."""
