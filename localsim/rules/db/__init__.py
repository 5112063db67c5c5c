"""Persistence: database, journal, collections, agenda."""
