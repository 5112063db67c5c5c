"""Requests that are signed: how they are read, and how their signatures are verified."""
