"""Replays a cassette against the simulator and lists the differences."""
