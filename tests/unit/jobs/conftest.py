"""A world for jobs on this machine: a directory as bucket, processes as workers."""

import pytest

from unit.agent.bucket_server import serving
from unit.jobs.jobs_world import World


@pytest.fixture
def world(tmp_path):
    with serving(tmp_path / "bucket") as server:
        world = World(tmp_path, server)
        yield world
        world.close()
