"""A world for jobs on this machine: a directory as bucket, processes as workers."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "agent"))
sys.path.insert(0, str(Path(__file__).parent))

from bucket_server import serving  # noqa: E402
from jobs_world import World  # noqa: E402


@pytest.fixture
def world(tmp_path):
    with serving(tmp_path / "bucket") as server:
        world = World(tmp_path, server)
        yield world
        world.close()
