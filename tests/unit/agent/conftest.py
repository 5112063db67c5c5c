"""A worker with the agent on it, for every test of the agent."""

import pytest

from unit.agent.agent_worker import working


@pytest.fixture
def worker(tmp_path):
    with working(tmp_path) as worker:
        yield worker
