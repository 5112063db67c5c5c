"""The workers of one attempt, looked after together."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tpuctl.errors import TpuctlError, TransientError
from tpuctl.jobs import link as links
from tpuctl.jobs import protocol
from tpuctl.jobs.link import Link, Run
from tpuctl.jobs.ports import Outside, Shell
from tpuctl.models.job import Attempt, JobRecord, Phase, WorkerReport
from tpuctl.models.node import Node, Worker

SALVAGE_TRIES = 5


@dataclass(slots=True)
class Doors:
    """Opens connections to a node's workers, with the host keys that the control plane knows."""

    outside: Outside
    node: Node
    keys: list[str] = field(default_factory=list)

    async def open(self, worker: Worker) -> Shell:
        """A connection to one worker; raises TransientError, RefusedError."""
        if worker.worker_id >= len(self.keys) or not self.keys[worker.worker_id]:
            await self._learn()
        known = self.keys[worker.worker_id] if worker.worker_id < len(self.keys) else ""
        if not known:
            raise TransientError(f"worker {worker.worker_id} has not told its host key yet")
        try:
            return await self.outside.open_shell(worker, known)
        except TpuctlError:
            self.keys = []  # a worker that was made anew has a new key
            raise

    async def _learn(self) -> None:
        try:
            self.keys = await asyncio.to_thread(
                self.outside.tpu.host_keys, self.node.zone, self.node.name
            )
        except TpuctlError as error:
            raise TransientError(f"host keys of {self.node.name}: {error}") from error


@dataclass(slots=True)
class Gang:
    """Every worker's link; what is told to one is told to all, at the same time."""

    attempt: int
    job_id: str
    links: list[Link]
    tasks: list[asyncio.Task[None]]

    def reports(self) -> tuple[WorkerReport, ...]:
        """What is known of every worker now."""
        return tuple(link.now() for link in self.links)

    async def start(self) -> None:
        """Let the prepared workers begin."""
        ready = [link for link in self.links if link.report.phase == Phase.PREPARED]
        await asyncio.gather(*(link.tell("start") for link in ready))

    async def stop(self, grace_s: float) -> None:
        """Stop the workers that have not ended."""
        going = [link for link in self.links if link.report.phase != Phase.ENDED]
        await asyncio.gather(*(link.tell("stop", "--grace", str(grace_s)) for link in going))

    async def save_tails(self, outside: Outside, sleep: Callable[[float], Awaitable[None]]) -> None:
        """Put into the bucket what the workers' agents no longer can."""
        for link in self.links:
            prefix = protocol.log_prefix(self.job_id, self.attempt, link.report.worker_id)
            for _ in range(SALVAGE_TRIES):
                try:
                    await asyncio.to_thread(link.tail.save, outside.store, prefix)
                    break
                except TransientError:
                    await sleep(1.0)

    async def close(self) -> None:
        """Let go of the connections; the runs go on."""
        await links.cancelled(self.tasks)


@dataclass(frozen=True, slots=True)
class Pace:
    """The supervisor's own clock and alarm."""

    monotonic: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    wake: Callable[[], None]


def gather(outside: Outside, record: JobRecord, attempt: Attempt, node: Node, pace: Pace) -> Gang:
    """A link to every worker of the node; a preparing attempt may be begun."""
    doors = Doors(outside, node)
    found = [_link(outside, record, attempt, worker, doors, pace) for worker in node.workers]
    tasks = [links.kept(link) for link in found]
    return Gang(attempt.number, record.job_id, found, tasks)


def _link(
    outside: Outside,
    record: JobRecord,
    attempt: Attempt,
    worker: Worker,
    doors: Doors,
    pace: Pace,
) -> Link:
    may_begin = attempt.started_s is None and attempt.stopping_s is None
    return Link(
        run=Run(record.job_id, attempt.number),
        report=links.connecting(worker.worker_id),
        dial=lambda: doors.open(worker),
        monotonic=pace.monotonic,
        sleep=pace.sleep,
        changed=pace.wake,
        installation=protocol.installation(
            record,
            attempt,
            worker.worker_id,
            endpoint=outside.storage_endpoint,
            bucket=outside.bucket,
        )
        if may_begin
        else None,
    )
