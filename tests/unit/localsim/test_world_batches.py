"""What a call is acknowledged for is on disk; calls that come together share one flush of it."""

import asyncio
import sqlite3
from dataclasses import replace

import asyncssh

from localsim.rules.model.cloud_errors import Code
from localsim.rules.model.nodes import NodeState
from localsim.rules.model.queued_resources import RequestState
from localsim.rules.scenario.scenario import Scenario
from unit.localsim.test_world import NODE, SPEC, ZONE, advance, request, world_of

NO_WORKERS = Scenario(workers="none")


def creation(node_id):
    return lambda cloud: cloud.create_node(ZONE, node_id, SPEC)


def commits_of(world):
    """Every COMMIT from now on."""
    found = []
    world.cloud._state.journal.connection.set_trace_callback(
        lambda statement: found.append(statement) if statement == "COMMIT" else None
    )
    return found


async def nodes_on_disk(state_dir):
    async with world_of(state_dir) as (world, _):
        return [node.node_id for node in world.cloud.list_nodes(ZONE).items]


def fill(world):
    """The database cannot grow any more; how to let it grow again."""
    connection = world.cloud._state.journal.connection
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    ((pages,),) = connection.execute("PRAGMA page_count").fetchall()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    return lambda: connection.execute("PRAGMA max_page_count = 1000000")


def big(number):
    """A node whose row needs pages of its own."""
    spec = replace(SPEC, metadata={"k": "x" * 20_000})
    return lambda cloud: cloud.create_node(ZONE, f"n{number}", spec)


def test_calls_made_at_once_are_durable_together(tmp_path):
    async def test():
        async with world_of(tmp_path) as (world, _):
            commits = commits_of(world)
            await asyncio.gather(*(world.run(creation(f"n{number}")) for number in range(9)))
            assert len(commits) == 1
        assert await nodes_on_disk(tmp_path) == [f"n{number}" for number in range(9)]

    asyncio.run(test())


def test_a_refused_call_takes_back_nothing_of_the_others(tmp_path):
    async def test():
        async with world_of(tmp_path) as (world, _):
            calls = (creation("a"), creation("a"), creation("b"))
            done = await asyncio.gather(*map(world.run, calls), return_exceptions=True)
            assert [getattr(each, "code", None) for each in done] == [
                None,
                Code.ALREADY_EXISTS,
                None,
            ]
            assert world.cloud.counts()["operations"] == 2
        assert await nodes_on_disk(tmp_path) == ["a", "b"]

    asyncio.run(test())


def test_reading_waits_for_what_it_saw_and_for_nothing_else(tmp_path):
    async def test():
        async with world_of(tmp_path) as (world, _):
            commits = commits_of(world)
            await world.run(lambda cloud: cloud.list_nodes(ZONE))
            assert commits == []
            creating = asyncio.ensure_future(world.run(creation("a")))
            await asyncio.sleep(0)
            found = await world.run(lambda cloud: cloud.list_nodes(ZONE))
            assert len(found.items) == len(commits) == 1
            await creating

    asyncio.run(test())


def test_what_the_disk_does_not_take_has_not_happened(tmp_path):
    async def test():
        async with world_of(tmp_path) as (world, _):
            await world.run(creation("before"))
            make_room = fill(world)
            done = await asyncio.gather(
                *(world.run(big(n)) for n in (1, 2)), return_exceptions=True
            )
            assert [error.code for error in done] == [Code.UNAVAILABLE] * 2
            assert [node.node_id for node in world.cloud.list_nodes(ZONE).items] == ["before"]
            assert world.cloud.counts()["operations"] == 1
            make_room()
            await world.run(big(1))
        assert await nodes_on_disk(tmp_path) == ["before", "n1"]

    asyncio.run(test())


def test_what_is_due_is_done_when_the_disk_takes_it_again(tmp_path, capsys, monkeypatch):
    async def test():
        monkeypatch.setattr("localsim.orchestrator.RETRY_S", 0.001)
        async with world_of(tmp_path, NO_WORKERS) as (world, _):
            await world.run(creation("a"))
            monkeypatch.setattr(world.cloud._state.agenda, "write", refuse)
            living = asyncio.ensure_future(world.live())
            world.clock.advance(1)
            await asyncio.sleep(0.05)
            assert world.cloud.get_node(NODE).state == NodeState.CREATING
            monkeypatch.undo()
            while world.cloud.get_node(NODE).state != NodeState.READY:
                await asyncio.sleep(0.001)
            living.cancel()

    asyncio.run(test())
    assert "cannot write its state: disk is full; trying again" in capsys.readouterr().err


def refuse(connection, keys):
    error = sqlite3.OperationalError("disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    raise error


def test_nodes_without_workers_are_ready_and_known_by_key_and_name(tmp_path):
    async def test():
        async with world_of(tmp_path, NO_WORKERS) as (world, _):
            await world.run(creation("a"))
            await world.run(
                lambda cloud: cloud.create_queued_resource(ZONE, "q", request("q-node"))
            )
            await advance(world, 0.5)
            await advance(world, 1)
            found = world.cloud.get_queued_resource(f"{ZONE}/queuedResources/q")
            assert found.state == RequestState.ACTIVE
            (identity,) = world.cloud.get_node(NODE).identities
            assert asyncssh.import_public_key(identity.host_key).get_algorithm() == "ssh-ed25519"
            assert identity.hostname.startswith("t1v-n-") and identity.hostname.endswith("-w-0")
            await world.reboot()
            assert not (tmp_path / "slices").exists()

    asyncio.run(test())
