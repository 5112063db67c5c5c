"""The workers of one attempt, of all its slices, looked after together."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tpuctl.errors import TransientError
from tpuctl.jobs.interfaces import Backends, Clocks, WorkerShell
from tpuctl.jobs.leases.lease import LeaseLostError
from tpuctl.jobs.workers import installation as installing
from tpuctl.jobs.workers import protocol
from tpuctl.jobs.workers import worker_connection as links
from tpuctl.jobs.workers.installation import StartInputs
from tpuctl.jobs.workers.sample_tail import AgentSample
from tpuctl.jobs.workers.worker_connection import WorkerConnection
from tpuctl.models.job import JobRecord, Phase, WorkerReport
from tpuctl.models.node import Node
from tpuctl.models.worker_numbers import WorkerSlot
from tpuctl.store import Store

GRACE_S = 10.0
"""Between SIGTERM and SIGKILL of a program that is stopped."""
SALVAGE_TRIES = 5
PARALLEL_SAVES = 16
"""Tails saved at a time."""


@dataclass(frozen=True, slots=True)
class GangMember:
    """A worker by its number in the gang, and how it is reached."""

    slot: WorkerSlot
    dial: Callable[[], Awaitable[WorkerShell]]


def members(backends: Backends, nodes: Sequence[Node]) -> Iterator[GangMember]:
    """Every worker of every slice, in order; their numbers count on over the slices."""
    number = 0
    for slice_id, node in enumerate(nodes):
        for index, worker in enumerate(node.workers):
            dial = partial(backends.open_shell, node, replace(worker, worker_id=number))
            yield GangMember(WorkerSlot(number, slice_id, index), dial)
            number += 1


@dataclass(slots=True)
class Gang:
    """Every worker's link; what is told to one is told to all, at the same time."""

    attempt: int
    job_id: str
    links: list[WorkerConnection]
    tasks: list[asyncio.Task[None]]

    def reports(self) -> tuple[WorkerReport, ...]:
        """What is known of every worker now; raises LeaseLostError."""
        self._check()
        return tuple(link.now() for link in self.links)

    def newest_samples(self) -> Iterator[tuple[int, AgentSample]]:
        """The newest sample of each worker that was measured, by its number."""
        for link in self.links:
            if link.samples.kept:
                yield link.report.worker_id, link.samples.kept[-1]

    async def start(self, fence: int) -> None:
        """Let the prepared workers begin; raises LeaseLostError."""
        ready = [link for link in self.links if link.report.phase == Phase.PREPARED]
        await asyncio.gather(*(link.tell("start", fence) for link in ready))
        self._check()

    async def stop(self, fence: int, *, dump: bool = False) -> None:
        """Stop the workers that have not ended, `dump` their stacks first; LeaseLostError."""
        options = ["--grace", str(GRACE_S), *([protocol.DUMP] if dump else [])]
        going = [link for link in self.links if link.report.phase != Phase.ENDED]
        await asyncio.gather(*(link.tell("stop", fence, *options) for link in going))
        self._check()

    def _check(self) -> None:
        if any(link.is_fenced_off for link in self.links):
            raise LeaseLostError

    async def save_tails(
        self, backends: Backends, sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        """Put into the bucket what the workers' agents no longer can."""
        turns = asyncio.Semaphore(PARALLEL_SAVES)

        async def save(link: WorkerConnection) -> None:
            run = self.job_id, self.attempt, link.report.worker_id
            async with turns:
                for _ in range(SALVAGE_TRIES):
                    try:
                        await asyncio.to_thread(_save_tails, link, backends.store, run)
                        break
                    except TransientError:
                        await sleep(1.0)

        await asyncio.gather(*map(save, self.links))

    async def close(self) -> None:
        """Let go of the connections; the runs go on."""
        await links.cancel_tasks(self.tasks)


def _save_tails(link: WorkerConnection, store: Store, run: tuple[str, int, int]) -> None:
    """Save the log and the samples of one worker; raises TransientError."""
    link.tail.save(store, protocol.log_prefix(*run))
    link.samples.save(store, protocol.metrics_prefix(*run))


def connect_gang(
    backends: Backends,
    record: JobRecord,
    nodes: Sequence[Node],
    inputs: StartInputs,
    clocks: Clocks,
    changed: Callable[[], None],
) -> Gang:
    """A link to every worker of the newest attempt, which may be begun while it prepares.

    `changed` is called when a report says something else than before.
    """
    attempt = record.attempts[-1]
    is_begun = attempt.started_s is not None or attempt.stopping_s is not None
    may_begin = not is_begun and inputs.secrets is not None
    addresses = [worker.ip_address for node in nodes for worker in node.workers]
    connections = []
    for member in members(backends, nodes):
        installation = installing.install_input(
            record, attempt, member.slot, inputs, backends, addresses
        )
        connection = WorkerConnection(
            run=protocol.run_directory(record.job_id, attempt.number),
            report=WorkerReport(member.slot.worker_id),
            dial=member.dial,
            clocks=clocks,
            changed=changed,
            installation=installation if may_begin else None,
            hidden=tuple((inputs.secrets or {}).values()),
        )
        connections.append(connection)
    tasks = [links.start_keeping(connection) for connection in connections]
    return Gang(attempt.number, record.job_id, connections, tasks)
