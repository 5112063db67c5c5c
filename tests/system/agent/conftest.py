"""Fixtures of the agent of a job, for real processes."""

from unit.agent.conftest import worker

__all__ = ["worker"]
