"""Rehearsals of many programs, repeated."""
