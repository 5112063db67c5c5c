"""What a link makes of a worker that falls silent, was never there, or speaks another protocol."""

import asyncio
import json
import time

import pytest

from tpuctl.errors import DamagedStateError, LocalIOError
from tpuctl.jobs.interfaces import Clocks
from tpuctl.jobs.workers import worker_connection as links
from tpuctl.jobs.workers.installation import StartInputs
from tpuctl.jobs.workers.worker_connection import WorkerConnection
from tpuctl.models.job import Phase, WorkerReport
from tpuctl.models.operation import CommandFailedError, CommandResult

RUNNING = {"status": {"phase": "running"}}
NEW = {"protocol": 2}


class Agent:
    """One worker: each connection says some messages, and then nothing, or ends as it is told."""

    def __init__(self, *connections):
        self.connections = list(connections)
        self.asked: list[list[str]] = []
        self.closed = 0

    async def dial(self):
        self.said = self.connections.pop(0)
        return self

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_error):
        self.closed += 1

    async def stream(self, argv, *, stdin=b""):
        self.asked.append(list(argv[3:]))
        for each in self.said:
            if isinstance(each, Exception):
                raise each
            yield json.dumps(each).encode() + b"\n"
        await asyncio.Event().wait()

    async def run(self, argv, *, timeout_s=None, stdin=b""):
        self.asked.append(list(argv[3:]))
        return CommandResult(0, self.status)


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self):
        self.now_s = 100.0

    async def sleep(self, wanted_s):
        for _ in range(20):  # whoever has something to do goes first
            await asyncio.sleep(0)
        self.now_s += wanted_s


def link_to(agent, clock, changes, **options) -> WorkerConnection:
    return WorkerConnection(
        ".tpuctl/jobs/j-1-a1", WorkerReport(1), agent.dial,
        Clocks(time.time, lambda: clock.now_s, clock.sleep),
        lambda: changes.append(clock.now_s), **options,
    )  # fmt: skip


def kept(link, until) -> None:
    async def story():
        task = links.start_keeping(link)
        async with asyncio.timeout(10):
            while not until():
                await asyncio.sleep(0)
        await links.cancel_tasks([task])

    asyncio.run(story())


def test_seconds_without_a_word_are_silence_and_the_worker_is_dialled_again():
    agent, clock, seen = Agent([NEW, RUNNING], [NEW, RUNNING]), Clock(), []
    link = link_to(agent, clock, [])

    def is_back():
        seen.append(link.now().unreachable_s)
        return len(agent.connections) == 0 and link.now().unreachable_s == 0

    kept(link, is_back)
    assert agent.closed >= 1
    assert links.SILENCE_S <= max(seen) < 6.0
    assert link.report.phase == Phase.RUNNING


@pytest.mark.parametrize("number", [1, 3])
def test_an_agent_of_another_protocol_is_not_believed(number):
    agent, clock = Agent([{"protocol": number}, RUNNING], []), Clock()
    link = link_to(agent, clock, [])
    kept(link, lambda: link.now().unreachable_s > 0)
    expected = f"the agent on the worker speaks protocol {number}, this tpuctl protocol 2"
    assert (link.report.message, link.report.phase) == (expected, Phase.CONNECTING)


def test_a_silent_worker_is_shown_with_its_last_lines():
    log = {"offset": 0, "log": "1.000 loading\n2.000 step=1\n"}
    agent, clock = Agent([NEW, log, RUNNING], []), Clock()
    link = link_to(agent, clock, [])
    kept(link, lambda: link.now().unreachable_s > 0)
    assert link.now().last_lines == ("loading", "step=1")


def test_a_run_that_is_not_there_is_lost():
    agent, clock = Agent([CommandFailedError(CommandResult(1, 1))]), Clock()
    link = link_to(agent, clock, [])
    kept(link, lambda: link.over)
    assert (link.report.phase, link.report.message) == (
        "lost", "lost its run: the worker was restarted",
    )  # fmt: skip


def test_an_agent_that_does_not_start_is_tried_again_and_says_why_without_secrets():
    broken = CommandFailedError(CommandResult(1, 127, stderr=b"sh: hunter22: python3: not found\n"))
    agent, clock = Agent([broken], [NEW, RUNNING]), Clock()
    told = []
    link = link_to(agent, clock, [], installation=b"{}", hidden=("hunter22",))

    def runs():
        told.append(link.now().message)
        return link.report.phase == Phase.RUNNING

    kept(link, runs)
    assert "the agent does not start: sh: ***: python3: not found" in told


def test_an_agent_that_knows_a_later_supervisor_ends_this_one():
    agent, clock = Agent([CommandFailedError(CommandResult(1, 3))]), Clock()
    link = link_to(agent, clock, [], installation=b"{}")
    kept(link, lambda: link.over)
    assert link.is_fenced_off


def test_a_command_is_given_under_the_fence_of_the_lease():
    agent, clock = Agent([NEW, RUNNING]), Clock()
    agent.status = 0
    link = link_to(agent, clock, [])

    async def story():
        task = links.start_keeping(link)
        while link.report.phase != Phase.RUNNING:
            await asyncio.sleep(0)
        await link.tell("stop", 7, "--grace", "10", "--dump")
        await links.cancel_tasks([task])

    asyncio.run(story())
    directory = ".tpuctl/jobs/j-1-a1"
    assert agent.asked[-1] == ["stop", directory, "--grace", "10", "--dump", "--fence", "7"]


@pytest.mark.parametrize(
    "trouble",
    [LocalIOError("the disk is full"), DamagedStateError("known_hosts"), BrokenPipeError(32, "x")],
)
def test_a_trouble_of_this_machine_is_silence_and_no_lost_worker(trouble):
    agent, clock = Agent([NEW, RUNNING, trouble], [NEW, RUNNING]), Clock()
    link, told = link_to(agent, clock, []), []

    def is_back():
        told.append(link.now().message)
        return not agent.connections and link.now().unreachable_s == 0

    kept(link, is_back)
    assert link.report.phase == Phase.RUNNING
    assert str(trouble) in told


def test_secrets_are_in_no_representation():
    link = link_to(Agent(), Clock(), [], installation=b"hunter22", hidden=("hunter22",))
    assert "hunter22" not in repr(link) + repr(StartInputs(secrets={"A": "hunter22"}))
