"""Maintenance and repair as workers and their programs see them."""

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from client.workers.worker_fixtures import (
    NAME,
    ONE,
    ask,
    is_running,
    pid_of,
    run,
    server_of,
    until,
    vpc,
)
from localsim.clock import Clock
from localsim.worker_facts import Maintenance
from localsim.workers.autocheckpoint import Autocheckpoints

INSTANCE = "/computeMetadata/v1/instance"
START_S = 1_800_000_000.0
PENDING = Maintenance(
    type="SCHEDULED",
    can_reschedule=True,
    window_start_s=604_800.0,
    window_end_s=612_000.0,
    latest_window_start_s=691_200.0,
    status="PENDING",
)
SAVE = "trap 'echo saving; sleep 0.1; exit 75' TERM; echo ready; while :; do sleep 0.01; done"


@asynccontextmanager
async def checkpoints(tmp_path: Path):
    """A slice of one worker, and the checkpoints that are taken on it by a clock that stands."""
    clock = Clock(manual_start_s=START_S)
    async with vpc(tmp_path, ONE, now=clock.now) as here:
        yield here, Autocheckpoints(here.slices, clock), clock


def test_announced_maintenance_is_readable_as_google_writes_it(tmp_path: Path):
    async def test() -> None:
        async with vpc(tmp_path, ONE) as here:
            server = await server_of(here)
            path = f"{INSTANCE}/upcoming-maintenance"
            assert (await ask(server, f"{path}?alt=json"))[::2] == (200, '"NONE"')
            here.slices.show(replace(ONE, maintenance=PENDING))
            _, headers, text = await ask(server, f"{path}?alt=json")
            assert headers["Content-Type"].startswith("application/json")
            expected = {
                "can_reschedule": "true",
                "latest_window_start_time": "1970-01-09T00:00:00Z",
                "maintenance_status": "PENDING",
                "type": "SCHEDULED",
                "window_end_time": "1970-01-08T02:00:00Z",
                "window_start_time": "1970-01-08T00:00:00Z",
            }
            assert json.loads(text) == expected
            lines = [f"{key} {value}" for key, value in expected.items()]
            assert (await ask(server, path))[2].splitlines() == lines
            _, _, everything = await ask(server, f"{INSTANCE}/?recursive=true")
            assert json.loads(everything)["upcomingMaintenance"] == expected
            _, _, flat = await ask(server, f"{INSTANCE}/?recursive=true&alt=text")
            assert "upcoming-maintenance/maintenance_status PENDING" in flat.splitlines()

    run(test)


def test_who_waits_for_the_maintenance_event_is_told_when_it_begins(tmp_path: Path):
    path = f"{INSTANCE}/maintenance-event"

    async def test() -> None:
        async with vpc(tmp_path, ONE) as here:
            server = await server_of(here)
            etag = (await ask(server, path))[1]["ETag"]
            waiting = asyncio.create_task(
                ask(server, f"{path}?wait_for_change=true&last_etag={etag}")
            )
            here.slices.show(replace(ONE, maintenance=PENDING))
            here.slices.show(replace(ONE, maintenance=replace(PENDING, status="ONGOING")))
            assert (await waiting)[2] == "TERMINATE_ON_HOST_MAINTENANCE"
            here.slices.show(ONE)
            assert (await ask(server, path))[2] == "NONE"

    run(test)


def test_programs_have_the_time_to_save_before_they_are_ended(tmp_path: Path):
    async def test() -> None:
        async with checkpoints(tmp_path) as (here, checkpoints_, _), here.ssh() as worker:
            saving = await worker.create_process(SAVE)
            assert await saving.stdout.readline() == "ready\n"
            taking = asyncio.create_task(checkpoints_.take(NAME, START_S + 300))
            done = await saving.wait()
            assert (done.stdout, done.exit_status) == ("saving\n", 75)
            await asyncio.wait_for(taking, 5)
            assert not checkpoints_.waits(NAME)

    run(test)


def test_what_does_not_end_is_waited_for_five_simulated_minutes(tmp_path: Path):
    async def test() -> None:
        async with checkpoints(tmp_path) as (here, checkpoints_, clock), here.ssh() as worker:
            deaf = await worker.create_process("trap '' TERM; echo $$; while :; do sleep 1; done")
            pid = await pid_of(deaf)
            taking = asyncio.create_task(checkpoints_.take(NAME, START_S + 300))
            await checkpoints_.begun.wait()
            clock.advance(299)
            await asyncio.wait({taking}, timeout=0.05)
            assert (taking.done(), checkpoints_.waits(NAME), is_running(pid)) == (False, True, True)
            clock.advance(1)
            assert not checkpoints_.waits(NAME)
            await asyncio.wait_for(taking, 5)
            assert is_running(pid)  # it is the stop that ends it

    run(test)


def test_a_slice_that_is_lost_is_waited_for_no_longer(tmp_path: Path):
    async def test() -> None:
        async with checkpoints(tmp_path) as (here, checkpoints_, _), here.ssh() as worker:
            deaf = await worker.create_process("trap '' TERM; echo $$; while :; do sleep 1; done")
            await pid_of(deaf)
            taking = asyncio.create_task(checkpoints_.take(NAME, START_S + 300))
            await checkpoints_.begun.wait()
            checkpoints_.give_up(NAME)
            await asyncio.wait_for(taking, 5)

    run(test)


def test_a_slice_without_programs_is_not_waited_for(tmp_path: Path):
    async def test() -> None:
        async with checkpoints(tmp_path) as (_, checkpoints_, _clock):
            for name in (NAME, "projects/p/locations/z/nodes/none"):
                await asyncio.wait_for(checkpoints_.take(name, START_S + 300), 5)

    run(test)


def test_a_restart_ends_programs_and_keeps_disk_doors_and_host_keys(tmp_path: Path):
    async def test() -> None:
        async with vpc(tmp_path, ONE) as here:
            before = await here.boot(ONE)
            async with here.ssh() as worker:
                pid = await pid_of(await worker.create_process("echo kept >f; echo $$; sleep 1000"))
                await here.slices.stop(NAME)
            await here.boot(ONE)
            await until(lambda: not is_running(pid))
            assert await here.boot(ONE) == before
            async with here.ssh() as worker:
                assert (await worker.run("cat f")).stdout == "kept\n"

    run(test)
