"""Tests of the pure rules of a rehearsal."""
