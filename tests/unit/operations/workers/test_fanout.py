"""Many workers at once: commands may wait for each other, copies are bounded."""

import asyncio

import pytest

from tpuctl.api.ssh import worker_connections
from tpuctl.models.node import Worker
from tpuctl.models.operation import CommandResult
from tpuctl.operations.remote.fanout import AT_ONCE, WorkerReach, run_on_each, run_on_reach

WORKERS = tuple(Worker(worker_id, "") for worker_id in range(AT_ONCE + 6))
REACH = WorkerReach(None, None, None, WORKERS)


class Open:
    """A connection to a worker, and the doors that lead there."""

    def __init__(self, *_ours):
        self.worker_id = 0

    async def identify(self, node):
        return {}

    async def open(self, node, worker):
        shell = Open()
        shell.worker_id = worker.worker_id
        return shell

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_error):
        return None


@pytest.fixture
def open_doors(monkeypatch):
    monkeypatch.setattr(worker_connections, "WorkerConnections", Open)


def test_a_command_that_waits_for_all_workers_runs_on_all(open_doors):
    async def run():
        everybody = asyncio.Barrier(len(WORKERS))

        async def meet(shell):
            await everybody.wait()
            return CommandResult(shell.worker_id, 0)

        async with asyncio.timeout(20):
            return await run_on_each(REACH, meet)

    assert [one.worker_id for one in asyncio.run(run())] == [worker.worker_id for worker in WORKERS]


def test_so_many_copies_go_on_at_a_time(open_doors):
    going_on = []

    async def copy(shell):
        going_on.append(shell.worker_id)
        most.append(len(going_on))
        await asyncio.sleep(0)
        going_on.remove(shell.worker_id)
        return CommandResult(shell.worker_id, 0)

    most = []
    run_on_reach(REACH, copy)
    assert max(most) == AT_ONCE
