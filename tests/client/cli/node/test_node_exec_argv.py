"""Any argv arrives byte by byte: 250 of them, through one connection to a worker."""

import asyncio
from collections.abc import Callable, Iterator

import pytest
from clouds import Runner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from client.cli.requests.own_slice import own_slice
from tpuctl.api.ssh.worker_connections import WorkerConnections
from tpuctl.cli.shell.runtime import Runtime

AT_ONCE = 10
"""What sshd allows on one connection (MaxSessions)."""
words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
tricky = st.sampled_from(
    ["", "-n", "--", "'", '"', "\\", "\n", "$(id)", "`id`", "~", "*", ";", "é"]
)
argvs = st.lists(st.lists(words | tricky, max_size=4), min_size=50, max_size=50)


@pytest.fixture(scope="module")
def connected(tmp_path_factory) -> Iterator[Callable]:
    """`connected(argvs)` is what each of them printed, between NULs."""
    for tpuctl in own_slice(tmp_path_factory.mktemp("argv"), "process"):
        with asyncio.Runner() as loop:
            doors, shell = loop.run(opened(tpuctl))
            yield lambda given, shell=shell: loop.run(printed(shell, given))
            loop.run(closed(doors, shell))


async def opened(tpuctl: Runner):
    runtime = Runtime(environ={"TPUCTL_HOME": str(tpuctl.home)})
    node = runtime.tpu.get_node("us-west4-a", "n1")
    doors = await WorkerConnections(runtime.tpu, runtime.access).__aenter__()
    return (doors, runtime), await doors.open(node, node.workers[0])


async def closed(opened, shell):
    doors, runtime = opened
    shell.close()
    await doors.__aexit__(None, None, None)
    runtime.close()


async def printed(shell, given):
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(argv):
        async with gate:
            out = bytearray()
            command = ["printf", "%s\\0", "first", *argv]
            status = await shell.execute(command, out=out.extend, err=out.extend)
            return status, bytes(out)

    return await asyncio.gather(*map(one, given))


@settings(max_examples=5, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(argvs)
def test_argv_arrives_as_it_is(connected, given):
    expected = [(0, "".join(f"{word}\0" for word in ("first", *argv)).encode()) for argv in given]
    assert connected(given) == expected
