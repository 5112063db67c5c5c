"""Slices of one request know each other, as JAX and libtpu look for it, also after a loss."""

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

from client.workers.worker_fixtures import KEY, OPEN, Vpc, leftovers, new_slices, run, ssh_keys

from localsim.clock import Clock
from localsim.orchestrator import Orchestrator
from localsim.rules.cloud import Cloud
from localsim.rules.db.database import open_database
from localsim.rules.model.nodes import NodeSpec, NodeState
from localsim.rules.model.queued_resources import (
    MultisliceParams,
    QueuedResourceSpec,
    RequestedNode,
)
from localsim.rules.scenario.scenario import Scenario
from localsim.services.net.socks import serve_socks

ZONE = "projects/demo/locations/us-west4-a"
FIRST, SECOND = f"{ZONE}/nodes/q-0", f"{ZONE}/nodes/q-1"
METADATA = {"ssh-keys": ssh_keys("ada", KEY)}
SPEC = NodeSpec("v5litepod-4", "v2-alpha-tpuv5-lite", metadata=METADATA)
TPU_ENV = (
    "curl -sf -H Metadata-Flavor:Google"
    " http://${GCE_METADATA_HOST:-metadata.google.internal}"
    "/computeMetadata/v1/instance/attributes/tpu-env | grep MEGASCALE"
)
KEYS = ("MEGASCALE_COORDINATOR_ADDRESS", "MEGASCALE_NUM_SLICES", "MEGASCALE_SLICE_ID")


@asynccontextmanager
async def two_slices(state_dir: Path, mode: str = "process"):
    """A world whose time stands still, and one request of two slices that are READY."""
    connection = open_database(state_dir / "state.sqlite")
    clock = Clock(manual_start_s=1_800_000_000.0)
    cloud = Cloud(connection, clock, project="demo", project_number=7, scenario=Scenario())
    isolation = await OPEN[mode](state_dir)
    slices = new_slices(
        state_dir, tell=lambda *news: world.tell(*news), now=clock.now, isolation=isolation
    )
    world = Orchestrator(cloud, slices, clock)
    wanted = QueuedResourceSpec((RequestedNode(ZONE, "", SPEC, MultisliceParams(2)),))
    try:
        await world.run(lambda cloud: cloud.create_queued_resource(ZONE, "q", wanted))
        await pass_time(world, 0.5, 2)
        yield world
    finally:
        await slices.close()
        await isolation.close()
        connection.close()
        assert leftovers(state_dir) == []


async def pass_time(world: Orchestrator, *seconds: float) -> None:
    for each in seconds:
        world.clock.advance(each)
        await asyncio.wait_for(world.settle(), 30)


async def shell(world: Orchestrator, name: str, command: str) -> str:
    """What a command prints on the only worker of a node."""
    node = world.cloud.get_node(name)
    proxy = await serve_socks(world.slices)
    here = Vpc(world.slices, proxy)
    here.identities[node.addresses[0]] = node.identities[0]
    try:
        async with here.ssh(node.addresses[0]) as worker:
            return (await worker.run(command)).stdout
    finally:
        await proxy.close()


async def environment(world: Orchestrator, name: str) -> dict[str, str]:
    """What a program on the node's worker is told by variables."""
    lines = (await shell(world, name, "env")).splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def megascale(coordinator: str, slice_id: int) -> str:
    """The lines of tpu-env about two slices."""
    return (
        f"MEGASCALE_COORDINATOR_ADDRESS: '{coordinator}:8081'\n"
        f"MEGASCALE_NUM_SLICES: '2'\nMEGASCALE_SLICE_ID: '{slice_id}'\n"
    )


def test_the_metadata_of_both_name_the_first_worker_of_slice_0(tmp_path: Path):
    async def test() -> None:
        async with two_slices(tmp_path) as world:
            first = world.cloud.get_node(FIRST).addresses[0]
            assert await shell(world, FIRST, TPU_ENV) == megascale(first, 0)
            assert await shell(world, SECOND, TPU_ENV) == megascale(first, 1)

    run(test)


def test_programs_meet_at_one_port_of_this_machine_where_that_is_all_there_is(tmp_path: Path):
    async def test() -> None:
        async with two_slices(tmp_path) as world:
            told = [await environment(world, name) for name in (FIRST, SECOND)]
            assert [[each[key] for key in KEYS] for each in told] == [
                ["127.0.0.1:8081", "2", "0"],
                ["127.0.0.1:8081", "2", "1"],
            ]
            assert len({each["JAX_COORDINATOR_PORT"] for each in told}) == 1
            assert len({each["TPU_PROCESS_ADDRESSES"] for each in told}) == 2

    run(test)


def test_hosts_of_their_own_reach_the_coordinator_and_are_told_by_metadata_alone(
    tmp_path: Path, namespaces
):
    serve = "setsid python3 -m http.server 8482 >/dev/null 2>&1 &"
    is_up = "until (echo >/dev/tcp/localhost/8482) 2>/dev/null; do sleep 0.05; done"

    async def test() -> None:
        async with two_slices(tmp_path, "namespace") as world:
            first = world.cloud.get_node(FIRST).addresses[0]
            told = await environment(world, SECOND)
            assert [name for name in told if name.startswith(("MEGASCALE", "JAX_COORD"))] == []
            assert await shell(world, SECOND, TPU_ENV) == megascale(first, 1)
            await shell(world, FIRST, f"{serve} {is_up}")
            reached = f"curl -so /dev/null -w '%{{http_code}}' http://{first}:8482/"
            assert await shell(world, SECOND, reached) == "200"

    run(test)


def test_slices_keep_their_ids_when_the_first_is_made_anew_and_all_follow_it(tmp_path: Path):
    async def test() -> None:
        async with two_slices(tmp_path) as world:
            before = world.cloud.get_node(FIRST).addresses[0]
            await world.run(lambda cloud: cloud.preempt(FIRST, 0))
            await pass_time(world, 0, 0.5, 2, 1)
            states = [world.cloud.get_node(name).state for name in (FIRST, SECOND)]
            assert states == [NodeState.READY] * 2
            after = world.cloud.get_node(FIRST).addresses[0]
            assert after != before
            assert await shell(world, FIRST, TPU_ENV) == megascale(after, 0)
            assert await shell(world, SECOND, TPU_ENV) == megascale(after, 1)
            told = [await environment(world, name) for name in (FIRST, SECOND)]
            assert len({each["JAX_COORDINATOR_PORT"] for each in told}) == 1

    run(test)
