"""The cloud and its workers together: what fails on one node is told, and ends there."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from localsim.clock import Clock
from localsim.orchestrator import Orchestrator
from localsim.rules.cloud import Cloud
from localsim.rules.db.database import open_database
from localsim.rules.model.cloud_errors import Code
from localsim.rules.model.nodes import NodeSpec, NodeState
from localsim.rules.model.queued_resources import QueuedResourceSpec, RequestedNode, RequestState
from localsim.rules.scenario.scenario import Scenario
from localsim.workers.isolation.process import ProcessIsolation
from localsim.workers.slices import Slices
from localsim.workers.worker import WorkerContext

ZONE = "projects/demo/locations/us-west4-a"
NODE = f"{ZONE}/nodes/a"
REQUEST = f"{ZONE}/queuedResources/q"
SPEC = NodeSpec("v5litepod-4", "v2-alpha-tpuv5-lite")
ONE_SLICE = Scenario(capacity={"us-west4-a": {"v5litepod-4": 1}})


class Door:
    """Serves nobody."""

    def __init__(self, listening):
        self.listening = listening

    async def close(self):
        self.listening.close()


class Doors:
    """Opens doors, unless there is a `trouble`: that is raised, once."""

    def __init__(self):
        self.trouble = None

    async def open(self, worker, listening):
        if self.trouble is not None:
            error, self.trouble = self.trouble, None
            raise error
        return Door(listening)


@asynccontextmanager
async def world_of(state_dir, scenario=None):
    """A world whose time stands still, and the doors of its workers."""
    connection = open_database(state_dir / "state.sqlite")
    clock = Clock(manual_start_s=1_800_000_000.0)
    scenario = scenario or Scenario()
    cloud = Cloud(connection, clock, project="demo", project_number=7, scenario=scenario)
    doors = Doors()
    slices = Slices(
        state_dir,
        isolation=ProcessIsolation(),
        open_ssh=doors.open,
        open_metadata=doors.open,
        open_chips=doors.open,
        context=WorkerContext(
            now=clock.now,
            tell=lambda *news: world.tell(*news),
            lost=lambda *worker: world.lose(*worker),
            extra_environment=dict,
        ),
    )
    try:
        world = Orchestrator(cloud, slices, clock)
        yield world, doors
    finally:
        await slices.close()
        connection.close()


async def advance(world, seconds):
    world.clock.advance(seconds)
    await world.settle()


def request(node_id):
    return QueuedResourceSpec((RequestedNode(ZONE, node_id, SPEC),))


def disks(state_dir):
    return list((state_dir / "slices").iterdir())


@pytest.mark.system
def test_a_node_whose_workers_cannot_boot_goes_away_and_its_operation_tells_why(tmp_path, capsys):
    async def test():
        async with world_of(tmp_path) as (world, doors):
            doors.trouble = OSError("no more doors")
            creating = await world.run(lambda cloud: cloud.create_node(ZONE, "a", SPEC))
            await advance(world, 1)
            failure = world.cloud.get_operation(creating.name).failure
            assert (failure.code, failure.message) == (
                Code.INTERNAL,
                f"The workers of '{NODE}' cannot boot: no more doors",
            )
            assert (world.cloud.counts()["nodes"], disks(tmp_path)) == (0, [])
            await world.run(lambda cloud: cloud.create_node(ZONE, "a", SPEC))
            await advance(world, 1)
            assert world.cloud.get_node(NODE).state == NodeState.READY

    asyncio.run(test())
    assert "OSError: no more doors" in capsys.readouterr().err


def test_a_stopped_node_that_cannot_start_stays_stopped_and_keeps_its_disk(tmp_path):
    async def test():
        async with world_of(tmp_path) as (world, doors):
            await world.run(lambda cloud: cloud.create_node(ZONE, "a", SPEC))
            await advance(world, 1)
            await world.run(lambda cloud: cloud.stop_node(NODE))
            await world.settle()
            doors.trouble = OSError("no more doors")
            starting = await world.run(lambda cloud: cloud.start_node(NODE))
            await world.settle()
            assert world.cloud.get_operation(starting.name).failure.code == Code.INTERNAL
            assert world.cloud.get_node(NODE).state == NodeState.STOPPED
            assert len(disks(tmp_path)) == 1
            await world.run(lambda cloud: cloud.start_node(NODE))
            await world.settle()
            assert world.cloud.get_node(NODE).state == NodeState.READY

    asyncio.run(test())


def test_a_queued_resource_fails_with_its_node_and_the_next_one_is_served(tmp_path):
    async def test():
        async with world_of(tmp_path, ONE_SLICE) as (world, doors):
            doors.trouble = OSError("no more doors")
            for name in ("q", "r"):
                wanted = request(f"{name}-node")
                await world.run(
                    lambda cloud, name=name, wanted=wanted: cloud.create_queued_resource(
                        ZONE, name, wanted
                    )
                )
                await advance(world, 0.5)
            await advance(world, 1)
            failed = world.cloud.get_queued_resource(REQUEST)
            assert (failed.state, failed.failure.code) == (RequestState.FAILED, Code.INTERNAL)
            await advance(world, 1)
            served = world.cloud.get_queued_resource(f"{ZONE}/queuedResources/r")
            assert served.state == RequestState.ACTIVE

    asyncio.run(test())


def test_a_node_that_was_ready_stays_so_when_it_does_not_come_back(tmp_path):
    async def test():
        async with world_of(tmp_path) as (world, doors):
            await world.run(lambda cloud: cloud.create_node(ZONE, "a", SPEC))
            await advance(world, 1)
            await world.slices.close()  # the power cut
            doors.trouble = OSError("no more doors")
            await world.reboot()
            assert world.slices.ssh_endpoint("10.128.0.2", 22) is None
            assert world.cloud.get_node(NODE).state == NodeState.READY
            assert len(disks(tmp_path)) == 1
            await world.reboot()
            assert world.slices.ssh_endpoint("10.128.0.2", 22) is not None

    asyncio.run(test())


@pytest.mark.system
@pytest.mark.parametrize("trouble", [RuntimeError("a mistake of ours"), OSError("the machine's")])
def test_what_comes_after_a_failure_still_happens(tmp_path, capsys, trouble):
    async def test():
        async with world_of(tmp_path) as (world, doors):
            await world.run(lambda cloud: cloud.create_node(ZONE, "a", SPEC))
            await advance(world, 1)
            await world.slices.close()
            doors.trouble = trouble
            rebooting = asyncio.ensure_future(world.reboot())
            await asyncio.sleep(0)  # the boot is under way
            deleting = await world.run(lambda cloud: cloud.delete_node(NODE))
            await rebooting
            await advance(world, 1)
            assert world.cloud.get_operation(deleting.name).is_done
            assert disks(tmp_path) == []

    asyncio.run(test())
    assert str(trouble) in capsys.readouterr().err
