"""Rehearsals: what is run, how many at a time, what is kept."""
