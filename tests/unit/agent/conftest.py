"""A worker with the agent on it, for every test of the agent."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from agent_worker import working  # noqa: E402


@pytest.fixture
def worker(tmp_path):
    with working(tmp_path) as worker:
        yield worker
