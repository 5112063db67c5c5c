"""Programs of a worker hold its simulated chips: one at a time, in sight of others, for as long as
they live."""

import asyncio
import shlex
from contextlib import asynccontextmanager

import pytest
from client.workers.worker_fixtures import ONE, SPEC, run, vpc
from clouds import ISOLATIONS, isolation_of

# Prints its process id once it holds the chips, or why it does not; ends with its input.
HOLDER = """
import os, sys
from localsim_chips import holding, lock
try:
    holding.hold(lambda: holding.Usage([1000, 2000, 3000, 4000], 0.25))
except lock.NotLoadedError as error:
    sys.exit(str(error))
print(os.getpid(), flush=True)
sys.stdin.read()
"""
# A child of a fork lives on when the program that holds the chips has been killed.
PARENT = HOLDER.replace(
    "sys.stdin.read()",
    "child = os.fork()\nif child == 0: sys.stdin.read(); os._exit(0)\nos.kill(os.getpid(), 9)",
)
DEVICES = (
    "for fd in /proc/{}/fd/*; do readlink $fd; done | grep -E '^/dev/(accel|vfio/)[0-9]' | sort"
)


@pytest.fixture(params=ISOLATIONS)
def either_mode(request):
    return isolation_of(request)


def python(program, **variables):
    given = "".join(f"{name}={value} " for name, value in variables.items())
    return f"{given}exec python3 -c {shlex.quote(program)}"


@asynccontextmanager
async def holding(worker, program=HOLDER, **variables):
    """A program that holds the chips, and its process id there."""
    process = await worker.create_process(python(program, **variables))
    try:
        line = await process.stdout.readline()
        assert line, await process.stderr.read()
        yield process, int(line)
    finally:
        process.stdin.write_eof()
        await process.wait()


async def refusal(worker, **variables):
    """Why a program cannot hold the chips; empty when it can."""
    result = await worker.run(python(HOLDER, **variables) + " < /dev/null")
    return result.stderr.strip()


def test_a_second_program_is_told_who_has_the_chips_in_the_words_of_libtpu(tmp_path, either_mode):
    async def test():
        async with vpc(tmp_path, ONE, mode=either_mode) as here, here.ssh() as worker:
            async with holding(worker) as (_, pid):
                assert await refusal(worker) == (
                    f"ABORTED: The TPU is already in use by process with pid {pid}."
                    " Not attempting to load libtpu.so in this process."
                )
            assert await refusal(worker) == ""

    run(test)


def test_a_program_that_is_killed_holds_the_chips_no_more(tmp_path):
    async def test():
        async with vpc(tmp_path, ONE) as here, here.ssh() as worker:
            async with holding(worker) as (process, _):
                process.kill()
                await process.wait()
            assert await refusal(worker) == ""

    run(test)


def test_a_child_does_not_hold_what_its_parent_held(tmp_path):
    async def test():
        async with vpc(tmp_path, ONE) as here, here.ssh() as worker, holding(worker, PARENT):
            await until_free(worker)

    async def until_free(worker):
        async with asyncio.timeout(5):
            while await refusal(worker):
                await asyncio.sleep(0.05)

    run(test)


@pytest.mark.parametrize(
    "variables",
    [
        {"ALLOW_MULTIPLE_LIBTPU_LOAD": "1"},
        {"TPU_CHIPS_PER_PROCESS_BOUNDS": "1,1,1", "TPU_VISIBLE_CHIPS": "3"},
        {"TPU_LOAD_LIBRARY": "1"},
    ],
)
def test_programs_share_the_chips_where_libtpu_lets_them(tmp_path, variables):
    async def test():
        async with vpc(tmp_path, ONE) as here, here.ssh() as worker, holding(worker):
            assert await refusal(worker, **variables) == ""

    run(test)


def test_libtpu_is_not_loaded_where_that_is_forbidden(tmp_path):
    async def test():
        async with vpc(tmp_path, ONE) as here, here.ssh() as worker:
            refused = await refusal(worker, TPU_LOAD_LIBRARY="0")
            assert refused == "FAILED_PRECONDITION: TPU_LOAD_LIBRARY=0, not loading libtpu"

    run(test)


def test_who_holds_which_chip_shows_in_proc(tmp_path, namespaces):
    async def test():
        async with vpc(tmp_path, ONE, mode="namespace") as here, here.ssh() as worker:
            async with holding(worker) as (_, pid):
                opened = (await worker.run(DEVICES.format(pid))).stdout.split()
                assert opened == [f"/dev/vfio/{chip}" for chip in range(4)]
                locked = await worker.run("readlink /proc/*/fd/* | grep libtpu_lockfile")
                assert locked.stdout.split() == ["/tmp/libtpu_lockfile"]
            parts = {"TPU_CHIPS_PER_PROCESS_BOUNDS": "1,1,1", "TPU_VISIBLE_CHIPS": "2"}
            async with holding(worker, **parts) as (_, pid):
                assert (await worker.run(DEVICES.format(pid))).stdout.split() == ["/dev/vfio/2"]

    run(test)


MESH = """
import numpy as np, os
from localsim.core import Mesh
with Mesh.connect() as mesh:
    print(*mesh.all_reduce([np.full(1, 10.0 ** mesh.worker_id)] * len(mesh.chips))[0], flush=True)
    os.system("ls -l /proc/$PPID/fd | grep -c vfio/")
"""


def test_the_simulated_mesh_finds_its_peers_by_metadata_alone(tmp_path, namespaces):
    async def test():
        async with vpc(tmp_path, SPEC, mode="namespace") as here:
            answers = await asyncio.gather(*(sums(here, each) for each in SPEC.addresses))
            assert answers == ["4444.0\n4\n"] * 4

    async def sums(here, address):
        async with here.ssh(address) as worker:
            variables = (await worker.run("env")).stdout
            assert [line for line in variables.splitlines() if line.startswith("TPU_")] == [
                "TPU_LIBRARY_PATH=/lib/libtpu.so"
            ]
            return (await worker.run(python(MESH), check=True)).stdout

    run(test)
