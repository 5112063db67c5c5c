"""Fixtures of jobs, for real processes."""

from unit.jobs.conftest import world

__all__ = ["world"]
