"""A job's log as it is written: live from the workers, from the bucket when they are gone."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import islice

from tpuctl.errors import TpuctlError, TransientError
from tpuctl.jobs.interfaces import Backends, Clocks
from tpuctl.jobs.logs import segments
from tpuctl.jobs.logs.log_lines import LineAssembler
from tpuctl.jobs.logs.segments import LogSource
from tpuctl.jobs.record import record_store as records
from tpuctl.jobs.workers import gang as gangs
from tpuctl.jobs.workers import protocol
from tpuctl.jobs.workers import worker_connection as links
from tpuctl.jobs.workers.gang import GangMember
from tpuctl.jobs.workers.worker_connection import WorkerConnection
from tpuctl.models.job import Attempt, AttemptState, JobRecord, WorkerReport
from tpuctl.models.job_log import ALL_LINES, LogFilter, LogLine
from tpuctl.models.node import NodeState

POLL_S = 0.5
FAST_POLL_S = 0.1
"""While there is nobody to listen to yet."""
DRAIN_S = 0.05
PATIENCE_S = 60.0
BATCH_LINES = 2000
"""Lines read from the bucket at a time."""


def read(backends: Backends, job_id: str, wanted: LogFilter = ALL_LINES) -> Iterator[LogLine]:
    """The lines that are in the bucket now, by attempt and time. Raises NotFoundError."""
    records.load(backends.store, job_id)
    found = segments.lines(backends.store, job_id, wanted)
    return (line for line in found if wanted.matches_line(line))


async def follow(
    backends: Backends,
    job_id: str,
    *,
    clocks: Clocks,
    wanted: LogFilter = ALL_LINES,
    on_report: Callable[[int, WorkerReport], None] = lambda _attempt, _report: None,
    on_workers: Callable[[int], None] = lambda _count: None,
) -> AsyncGenerator[JobRecord | LogLine]:
    """Every line of every attempt until the job has ended, and the record when its story goes on.

    `on_report` is called with every change of a live worker's report, `on_workers` with how many
    workers' lines are to come. Raises NotFoundError.
    """
    number, told = 1, ""
    while True:
        record = await _load_patiently(backends, job_id, clocks)
        if record.status_text != told:
            told = record.status_text
            yield record
        if number <= len(record.attempts):
            attempt = record.attempts[number - 1]
            live = AttemptFollower(backends, attempt, job_id, clocks, wanted, on_report, on_workers)
            async with aclosing(live.lines()) as items:
                async for item in items:
                    if isinstance(item, JobRecord):
                        if item.status_text == told:
                            continue
                        told = item.status_text
                    yield item
            number += 1
        elif record.is_ended:
            return
        else:
            await clocks.sleep(FAST_POLL_S)


async def _load_patiently(backends: Backends, job_id: str, clocks: Clocks) -> JobRecord:
    """The record; a bucket that is away for a while is waited for."""
    since = clocks.monotonic()
    while True:
        try:
            return (await asyncio.to_thread(records.load, backends.store, job_id)).record
        except TransientError:
            if clocks.monotonic() - since > PATIENCE_S:
                raise
        await clocks.sleep(POLL_S)


@dataclass(slots=True)
class AttemptFollower:
    """Reads the log of one attempt: from its workers while it lives, then from the bucket."""

    backends: Backends
    attempt: Attempt
    job_id: str
    clocks: Clocks
    wanted: LogFilter
    on_report: Callable[[int, WorkerReport], None]
    on_workers: Callable[[int], None]
    queue: list[LogLine] = field(default_factory=list)
    logs: dict[LogSource, LineAssembler] = field(default_factory=dict)
    members: list[GangMember] = field(default_factory=list)
    links: dict[int, WorkerConnection] = field(default_factory=dict)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    gaps: dict[LogSource, list[tuple[int, bytes]]] = field(default_factory=dict)
    """What came after a hole that the bucket may fill."""

    async def lines(self) -> AsyncGenerator[JobRecord | LogLine]:
        """Yield lines, and the record at every look, until the attempt ended and all is read."""
        try:
            async for line in self._stored():  # so that workers are asked for the newest part only
                yield line
            while self.attempt.state != AttemptState.ENDED:
                record = await _load_patiently(self.backends, self.job_id, self.clocks)
                self.attempt = record.attempts[self.attempt.number - 1]
                yield record
                await self._connect()
                until = self.clocks.monotonic() + (POLL_S if self.links else FAST_POLL_S)
                while self.clocks.monotonic() < until:
                    for line in await self._drained():
                        yield line
                    await self.clocks.sleep(DRAIN_S)
        finally:
            await links.cancel_tasks(self.tasks)
        for line in await self._drained():
            yield line
        async for line in self._stored():
            yield line

    async def _drained(self) -> list[LogLine]:
        for source in list(self.gaps):
            await self._fill(source)
        drained, self.queue = self.queue, []
        return sorted(filter(self.wanted.matches_line, drained), key=lambda line: line.time_s)

    async def _fill(self, source: LogSource) -> None:
        """Fill a hole from the bucket, which may have what the worker has not any more."""
        log, held = self.logs[source], self.gaps[source]
        upto = held[0][0]

        def filled() -> list[tuple[int, bytes]]:
            entries = segments.sources(self.backends.store, self.job_id, source[0])
            found = segments.pieces(self.backends.store, entries.get(source, []), log.end)
            return [piece for piece in found if piece[0] < upto]

        try:
            missing = await asyncio.to_thread(filled)
        except TransientError:
            return  # asked again when the queue is drained next
        for offset, data in [*missing, *self.gaps.pop(source)]:
            self.queue += log.take(offset, data)

    async def _stored(self) -> AsyncGenerator[LogLine]:
        """What the bucket has beyond what was shown."""
        store, number = self.backends.store, self.attempt.number
        found = segments.lines(store, self.job_id, self.wanted, number, self.logs)
        while batch := await asyncio.to_thread(lambda: list(islice(found, BATCH_LINES))):
            for line in filter(self.wanted.matches_line, batch):
                yield line

    async def _connect(self) -> None:
        """A link to every wanted worker that has none."""
        if self.attempt.state in (AttemptState.WAITING, AttemptState.ENDED):
            return
        if not self.members:
            try:
                self.members = await asyncio.to_thread(self._found)
            except TpuctlError:
                return  # gone, or not to be asked now: the bucket has what was saved
        for member in self.members:
            number = member.slot.worker_id
            if number not in self.links and self.wanted.has((self.attempt.number, number)):
                self.links[number] = link = self._link(member)
                self.tasks.append(links.start_keeping(link))
        self.on_workers(len(self.links))

    def _found(self) -> list[GangMember]:
        """Every worker of every slice, when all of them are there."""
        tpu, zone = self.backends.tpu, self.attempt.zone
        nodes = [tpu.get_node(zone, name) for name in self.attempt.nodes]
        is_ready = all(node.state == NodeState.READY for node in nodes)
        return list(gangs.members(self.backends, nodes)) if is_ready else []

    def _link(self, member: GangMember) -> WorkerConnection:
        source = (self.attempt.number, member.slot.worker_id)
        log = self.logs.setdefault(source, LineAssembler(*source))
        link = WorkerConnection(
            run=protocol.run_directory(self.job_id, self.attempt.number),
            report=WorkerReport(member.slot.worker_id),
            dial=member.dial,
            clocks=self.clocks,
            changed=lambda: self.on_report(source[0], link.now()),
            on_log=lambda offset, data: self._take(source, offset, data),
            offset=log.end,
            is_patient=True,
        )
        return link

    def _take(self, source: LogSource, offset: int, data: bytes) -> None:
        """Queue the whole lines of a piece of log; what lies behind a hole waits for that."""
        log = self.logs[source]
        if source in self.gaps or offset > log.end:
            self.gaps.setdefault(source, []).append((offset, data))
        else:
            self.queue += log.take(offset, data)
