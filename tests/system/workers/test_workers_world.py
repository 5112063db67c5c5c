"""Real workers of a real cloud: what the one decides the other does, and tells it back."""

import asyncio
import json
from contextlib import asynccontextmanager
from pathlib import Path

import asyncssh
import pytest
from client.workers.worker_fixtures import (
    KEY,
    is_running,
    leftovers,
    new_slices,
    pid_of,
    run,
    ssh_keys,
    until,
)

from localsim.clock import Clock
from localsim.orchestrator import Orchestrator
from localsim.rules.cloud import Cloud
from localsim.rules.db.database import open_database
from localsim.rules.model.nodes import NodeSpec, NodeState
from localsim.rules.scenario.scenario import Scenario

ZONE = "projects/demo/locations/us-west4-a"
NODE = f"{ZONE}/nodes/a"
PATH = "/computeMetadata/v1/instance"
DEAF = "trap '' TERM; echo $$; while :; do sleep 1; done"


@asynccontextmanager
async def world_of(state_dir: Path, scenario: Scenario | None = None, project_metadata=dict):
    """A world with every part real but its time, which stands still."""
    connection = open_database(state_dir / "state.sqlite")
    clock = Clock(manual_start_s=1_800_000_000.0)
    scenario = scenario or Scenario()
    cloud = Cloud(connection, clock, project="demo", project_number=7, scenario=scenario)
    slices = new_slices(state_dir, tell=lambda *news: world.tell(*news), now=clock.now)
    world = Orchestrator(cloud, slices, clock, project_metadata=project_metadata)
    try:
        await world.reboot()
        yield world
    finally:
        await slices.close()
        connection.close()
        assert leftovers(state_dir) == []


async def create(world: Orchestrator, **fields: object) -> None:
    """A READY node of one worker."""
    spec = NodeSpec(
        "v5litepod-4",
        "v2-alpha-tpuv5-lite",
        **{"metadata": {"ssh-keys": ssh_keys("ada", KEY)}, **fields},
    )
    await world.run(lambda cloud: cloud.create_node(ZONE, "a", spec))
    await advance(world, 2)


async def advance(world: Orchestrator, seconds: float) -> None:
    world.clock.advance(seconds)
    await asyncio.wait_for(world.settle(), 20)


@asynccontextmanager
async def ssh(world: Orchestrator):
    """A login on the node's worker, as gcloud makes it: with the host key that the API tells."""
    node = world.cloud.get_node(NODE)
    host, port = world.slices.ssh_endpoint(node.addresses[0], 22).address
    key = asyncssh.import_public_key(node.identities[0].host_key)
    async with asyncssh.connect(
        host,
        port,
        username="ada",
        client_keys=[KEY],
        known_hosts=([key], [], []),
        agent_path=None,
        config=None,
    ) as connection:
        yield connection


async def shell(world: Orchestrator, command: str) -> str:
    """What a command prints on the node's worker."""
    async with ssh(world) as worker:
        return (await worker.run(command, check=True)).stdout


def told(world: Orchestrator) -> list[tuple[str, str]]:
    """What the control plane knows of worker 0 in the namespace `startup`."""
    (entries,) = world.cloud.guest_attributes(NODE, "startup/")
    return [(each.key, each.value) for each in entries]


def test_what_a_worker_puts_is_in_the_api_also_after_a_restart(tmp_path: Path):
    url = f"http://$GCE_METADATA_HOST{PATH}/guest-attributes/startup/status"
    curl = "curl -sf -H Metadata-Flavor:Google"

    async def test() -> None:
        async with world_of(tmp_path) as world:
            await create(world)
            await shell(world, f"{curl} -X PUT --data done {url}")
            assert told(world) == [("status", "done")]
        async with world_of(tmp_path) as world:
            assert told(world) == [("status", "done")]
            assert await shell(world, f"{curl} {url}") == "done"
            await shell(world, f"{curl} -X DELETE {url}")
            assert told(world) == []

    run(test)


def test_a_startup_script_may_report_in_its_own_words(tmp_path: Path):
    script = (
        f"curl -sf -X PUT --data 0 -H Metadata-Flavor:Google"
        f" http://$GCE_METADATA_HOST{PATH}/guest-attributes/startup/exit-code"
    )
    metadata = {"ssh-keys": ssh_keys("ada", KEY), "startup-script": script}

    async def test() -> None:
        async with world_of(tmp_path) as world:
            await create(world, metadata=metadata)
            await until(lambda: told(world))
            assert told(world) == [("exit-code", "0")]

    run(test)


def test_a_slice_with_a_worker_that_never_boots_stays_creating_until_it_is_deleted(tmp_path: Path):
    scenario = Scenario(worker_that_never_boots="a/0")

    async def test() -> None:
        async with world_of(tmp_path, scenario) as world:
            await create(world)
            await advance(world, 3600)
            assert world.cloud.get_node(NODE).state == NodeState.CREATING
            deleting = await world.run(lambda cloud: cloud.delete_node(NODE))
            await advance(world, 60)
            assert world.cloud.get_operation(deleting.name).is_done
            assert list((tmp_path / "slices").iterdir()) == []

    run(test)


def test_maintenance_lets_programs_save_and_brings_the_worker_back(tmp_path: Path):
    async def test() -> None:
        async with world_of(tmp_path) as world:
            await create(world, autocheckpoint_enabled=True)
            async with ssh(world) as worker:
                saving = await worker.create_process(
                    "trap 'echo saved >f; exit 0' TERM; echo $$; while :; do sleep 0.01; done"
                )
                pid = await pid_of(saving)
                await world.run(lambda cloud: cloud.simulate_maintenance_event(NODE))
                assert world.cloud.get_node(NODE).state == NodeState.REPAIRING
                await until(lambda: not is_running(pid))
            await advance(world, 240)
            await until(lambda: world.cloud.get_node(NODE).state == NodeState.READY)
            assert await shell(world, "cat f") == "saved\n"

    run(test)


def test_a_program_that_does_not_end_delays_maintenance_by_five_simulated_minutes(tmp_path: Path):
    async def test() -> None:
        async with world_of(tmp_path) as world:
            await create(world, autocheckpoint_enabled=True)
            async with ssh(world) as worker:
                pid = await pid_of(await worker.create_process(DEAF))
                await world.run(lambda cloud: cloud.simulate_maintenance_event(NODE))
                await advance(world, 299)
                assert is_running(pid)
                await advance(world, 1)
                await until(lambda: not is_running(pid))
            await advance(world, 240)
            assert world.cloud.get_node(NODE).state == NodeState.READY

    run(test)


@pytest.mark.parametrize("fields", [{"autocheckpoint_enabled": True}, {}])
def test_a_node_can_be_deleted_while_its_programs_save(tmp_path: Path, fields: dict):
    async def test() -> None:
        async with world_of(tmp_path) as world:
            await create(world, **fields)
            async with ssh(world) as worker:
                pid = await pid_of(await worker.create_process(DEAF))
                await world.run(lambda cloud: cloud.simulate_maintenance_event(NODE))
                await world.run(lambda cloud: cloud.delete_node(NODE))
                await advance(world, 1)
                assert (is_running(pid), world.cloud.counts()["nodes"]) == (False, 0)

    run(test)


def test_the_project_s_metadata_is_shown_and_its_keys_let_users_in(tmp_path: Path):
    project = {"team": "vision"}
    path = PATH.replace("instance", "project/attributes")
    attributes = (
        f"curl -sf -H Metadata-Flavor:Google http://$GCE_METADATA_HOST{path}/?recursive=true"
    )

    async def test() -> None:
        async with world_of(tmp_path, project_metadata=lambda: project) as world:
            await create(world, metadata={})
            with pytest.raises(asyncssh.PermissionDenied):
                await shell(world, "true")
            project["ssh-keys"] = ssh_keys("ada", KEY)
            world.project_changed()
            await world.settle()
            assert json.loads(await shell(world, attributes)) == project
            block = {"metadata": {"block-project-ssh-keys": "TRUE"}}
            await world.run(lambda cloud: cloud.update_node(NODE, block))
            await advance(world, 1)
            with pytest.raises(asyncssh.PermissionDenied):
                await shell(world, "true")

    run(test)


def test_a_killed_worker_is_dead_after_a_restart_and_alive_after_a_repair(tmp_path: Path):
    async def test() -> None:
        async with world_of(tmp_path) as world:
            await create(world)
            await world.run(lambda cloud: cloud.add_fault("worker a/0: killed"))
            await advance(world, 60)
            assert world.slices.ssh_endpoint(world.cloud.get_node(NODE).addresses[0], 22) is None
        async with world_of(tmp_path) as world:
            node = world.cloud.get_node(NODE)
            assert (node.state, node.health) == (NodeState.READY, "TIMEOUT")
            assert world.slices.ssh_endpoint(node.addresses[0], 22) is None
            await world.run(lambda cloud: cloud.simulate_maintenance_event(NODE))
            await advance(world, 5)
            assert await shell(world, "echo back") == "back\n"
            assert world.cloud.get_node(NODE).health == "HEALTHY"

    run(test)


def test_workers_of_a_preempted_slice_vanish_one_after_the_other(tmp_path: Path):
    scenario = Scenario(preemption_spread_s=10)

    async def test() -> None:
        async with world_of(tmp_path, scenario) as world:
            spec = NodeSpec("v5litepod-16", "v2-alpha-tpuv5-lite")
            await world.run(lambda cloud: cloud.create_node(ZONE, "a", spec))
            await advance(world, 2)
            addresses = world.cloud.get_node(NODE).addresses

            def up() -> int:
                return sum(world.slices.ssh_endpoint(each, 22) is not None for each in addresses)

            await world.run(lambda cloud: cloud.preempt(NODE, 0))
            await world.settle()
            assert (up(), len(list(tmp_path.glob("slices/*/*/home")))) == (3, 4)
            seen = set()
            for _ in range(100):
                await advance(world, 0.1)
                seen.add(up())
            assert seen >= {0, 3} and len(seen) > 2
            assert list(tmp_path.glob("slices/*")) == []

    run(test)
