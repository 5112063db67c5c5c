"""A job's log as it is written: live from the workers, from the bucket when they are gone."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field

from tpuctl.errors import TpuctlError, TransientError
from tpuctl.jobs import link as links
from tpuctl.jobs import record as records
from tpuctl.jobs import segments
from tpuctl.jobs.caretaker import Clocks
from tpuctl.jobs.gang import Doors
from tpuctl.jobs.link import Link, Run
from tpuctl.jobs.ports import Outside
from tpuctl.jobs.segments import Source
from tpuctl.models.job import (
    Attempt,
    AttemptState,
    JobRecord,
    LogLine,
    Phase,
    WorkerReport,
)

LOOK_S = 0.5
DRAIN_S = 0.1
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which workers' lines, and of which attempts; None: all."""

    workers: frozenset[int] | None = None
    attempts: frozenset[int] | None = None

    def has(self, source: Source) -> bool:
        """Lines of that attempt and worker are wanted."""
        attempt, worker_id = source
        return (self.attempts is None or attempt in self.attempts) and (
            self.workers is None or worker_id in self.workers
        )


ALL = Wanted()


def read(outside: Outside, job_id: str, wanted: Wanted = ALL) -> Iterator[LogLine]:
    """The lines that are in the bucket now, by attempt and time. Raises NotFoundError."""
    records.load(outside.store, job_id)
    sources = segments.sources(outside.store, job_id)
    return segments.lines(
        outside.store, job_id, {source: 0 for source in sources if wanted.has(source)}
    )


async def follow(
    outside: Outside,
    job_id: str,
    *,
    clocks: Clocks,
    wanted: Wanted = ALL,
    on_report: Callable[[int, WorkerReport], None] = lambda _attempt, _report: None,
) -> AsyncGenerator[JobRecord | LogLine]:
    """Every line of every attempt until the job has ended, and the record when its story goes on.

    `on_report` is called with every change of a live worker's report. Raises NotFoundError.
    """
    shown: dict[Source, int] = {}
    number, told = 1, ""
    while True:
        record = await _patiently(outside, job_id, clocks)
        if record.why != told:
            told = record.why
            yield record
        if number <= len(record.attempts):
            live = Live(outside, record.attempts[number - 1], job_id, clocks, wanted, on_report)
            async with aclosing(live.lines(shown, told)) as items:
                async for item in items:
                    told = item.why if isinstance(item, JobRecord) else told
                    yield item
            number += 1
        elif record.is_ended:
            return
        else:
            await clocks.sleep(LOOK_S)


async def _patiently(outside: Outside, job_id: str, clocks: Clocks) -> JobRecord:
    """The record; a bucket that is away for a while is waited for."""
    since = clocks.monotonic()
    while True:
        try:
            return (await asyncio.to_thread(records.load, outside.store, job_id)).record
        except TransientError:
            if clocks.monotonic() - since > PATIENCE_S:
                raise
        await clocks.sleep(LOOK_S)


@dataclass(slots=True)
class Live:
    """One attempt: links to its workers while it lives, then the rest from the bucket."""

    outside: Outside
    attempt: Attempt
    job_id: str
    clocks: Clocks
    wanted: Wanted
    on_report: Callable[[int, WorkerReport], None]
    queue: list[LogLine] = field(default_factory=list)
    links: dict[int, Link] = field(default_factory=dict)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    rest: dict[Source, bytes] = field(default_factory=dict)
    doors: Doors | None = None

    async def lines(
        self, shown: dict[Source, int], told: str
    ) -> AsyncGenerator[JobRecord | LogLine]:
        """Until the record says that the attempt has ended, and everything was read."""
        try:
            while self.attempt.state != AttemptState.ENDED:
                record = await _patiently(self.outside, self.job_id, self.clocks)
                self.attempt = record.attempts[self.attempt.number - 1]
                if record.why != told:
                    told = record.why
                    yield record
                await self._connect(shown)
                until = self.clocks.monotonic() + LOOK_S
                while self.clocks.monotonic() < until:
                    for line in self._drained():
                        yield line
                    await self.clocks.sleep(DRAIN_S)
        finally:
            await links.cancelled(self.tasks)
        for line in [*self._drained(), *await asyncio.to_thread(self._remaining, shown)]:
            yield line

    def _drained(self) -> list[LogLine]:
        drained, self.queue = self.queue, []
        return sorted(drained, key=lambda line: line.time_s)

    def _remaining(self, shown: dict[Source, int]) -> list[LogLine]:
        """What the bucket has beyond what was shown."""
        found = segments.sources(self.outside.store, self.job_id)
        start = {
            source: shown.get(source, 0)
            for source in found
            if source[0] == self.attempt.number and self.wanted.has(source)
        }
        return list(segments.lines(self.outside.store, self.job_id, start))

    async def _connect(self, shown: dict[Source, int]) -> None:
        """A link to every wanted worker that has none, or whose run was not there yet."""
        if self.attempt.state in (AttemptState.WAITING, AttemptState.ENDED):
            return
        if self.doors is None:
            try:
                node = await asyncio.to_thread(
                    self.outside.tpu.get_node, self.attempt.zone, self.attempt.node
                )
            except TpuctlError:
                return  # gone, or not to be asked now: the bucket has what was saved
            self.doors = Doors(self.outside, node)
        for worker in self.doors.node.workers:
            source = (self.attempt.number, worker.worker_id)
            known = self.links.get(worker.worker_id)
            missing = known is None or (known.over and known.report.phase == Phase.LOST)
            if missing and self.wanted.has(source):
                link = self._link(source, self.doors, shown)
                self.links[worker.worker_id] = link
                self.tasks.append(links.kept(link))

    def _link(self, source: Source, doors: Doors, shown: dict[Source, int]) -> Link:
        worker = doors.node.workers[source[1]]
        self.rest.pop(source, None)
        link = Link(
            run=Run(self.job_id, self.attempt.number),
            report=links.connecting(worker.worker_id),
            dial=lambda: doors.open(worker),
            monotonic=self.clocks.monotonic,
            sleep=self.clocks.sleep,
            changed=lambda: self.on_report(source[0], link.report),
            on_log=lambda offset, data: self._take(source, shown, offset, data),
            offset=shown.setdefault(source, 0),
        )
        return link

    def _take(self, source: Source, shown: dict[Source, int], offset: int, data: bytes) -> None:
        """Queue the whole lines of a piece of log; the rest of a line waits for its end."""
        text = self.rest.pop(source, b"") + data
        whole = text[: text.rfind(b"\n") + 1]
        self.rest[source] = text[len(whole) :]
        shown[source] = offset + len(data) - len(self.rest[source])
        self.queue += segments.parsed(source, whole.splitlines())
