"""Connects the proxy of a service with the service's record: which replicas, how much load."""

from __future__ import annotations

import asyncio
import secrets
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from tpuctl.errors import NotFoundError, PreconditionError, TpuctlError
from tpuctl.jobs.services import service_store
from tpuctl.metrics.exporters.prometheus_text import PROXY_METRICS, exposition
from tpuctl.models.inference.service_record import (
    ROUTED_STATES,
    ProxyReport,
    Replica,
    ServiceRecord,
    ServiceState,
)
from tpuctl.network_policy import PROXY_QUEUE_S, PROXY_SILENCE_S
from tpuctl.operations.services.replica_dialing import ReplicaDialer

if TYPE_CHECKING:
    from tpuctl.api.ssh.keys import Access
    from tpuctl.api.tpu.tpu import TpuApi
    from tpuctl.proxy.proxy_limits import ProxyLimits
    from tpuctl.proxy.proxy_server import ServiceProxy
    from tpuctl.proxy.replica_pool import ReplicaTarget
    from tpuctl.store import Store

RECORD_PAUSE_S = 1.0
"""So often it is asked whether the record has changed."""
REPORT_PAUSE_S, REPORT_CHANGE_S, REPORT_LIFE_S = 0.5, 2.0, 10.0
"""So often it is looked whether the load has changed; a change is written no more often than the
second, and a sign of life at the latest after the third.
"""
REMOVE_S = 3.0
"""The end of a proxy waits no longer for the bucket; a report that stays is old after a while."""
READY_PATH = "/health"

Say = Callable[[str], None]


class ProxyRuntime(Protocol):
    """What a proxy needs of a command; clients are built on first use."""

    @property
    def tpu(self) -> TpuApi:
        """The Cloud TPU API."""

    @property
    def access(self) -> Access:
        """This user's SSH key and the dialer to the workers."""

    @property
    def now(self) -> Callable[[], float]:
        """The wall clock, in seconds since 1970."""

    @property
    def sleep(self) -> Callable[[float], None]:
        """Wait for some seconds."""

    def store(self) -> Store:
        """The store at the context's bucket."""


@dataclass(frozen=True, slots=True)
class ProxyListener:
    """Where a proxy listens, and whom it answers."""

    listening: socket.socket
    token: str | None
    limits: ProxyLimits
    tls: ssl.SSLContext | None = None


def make_limits(
    *,
    silence_s: float = PROXY_SILENCE_S,
    queue_s: float = PROXY_QUEUE_S,
    in_flight: int | None = None,
    repeats_posts: bool = False,
) -> ProxyLimits:
    """The deadlines and bounds of a proxy."""
    from tpuctl.proxy.proxy_limits import ProxyLimits

    return ProxyLimits(
        silence_s=silence_s, queue_s=queue_s, in_flight=in_flight, repeats_posts=repeats_posts
    )


async def run_beside(supervising: Awaitable[None], serving: Awaitable[None]) -> None:
    """Run a supervisor, and a proxy beside it, which ends with it."""
    proxy = asyncio.ensure_future(serving)
    try:
        await supervising
    finally:
        proxy.cancel()
        with suppress(asyncio.CancelledError):
            await proxy


def targets_of(record: ServiceRecord) -> list[ReplicaTarget]:
    """The replicas of a service that have an address, as its proxy needs them."""
    paths = {
        each.number: each.spec.serve.ready if each.spec.serve else READY_PATH
        for each in record.revisions
    }
    return [
        target_of(replica, paths.get(replica.revision, READY_PATH))
        for replica in record.replicas
        if replica.address is not None
    ]


def target_of(replica: Replica, ready_path: str) -> ReplicaTarget:
    """A replica with an address, as a proxy needs it."""
    from tpuctl.proxy.replica_pool import ReplicaTarget

    assert replica.address is not None
    is_routed = replica.state in ROUTED_STATES
    return ReplicaTarget(replica.number, replica.address, ready_path, is_routed)


def load_service(store: Store, name: str) -> ServiceRecord:
    """The record of a service that is not deleted; raises NotFoundError, PreconditionError."""
    record = service_store.load(store, name).record
    if record.ended_s is not None:
        raise PreconditionError(
            f"service {name!r} is {record.state}", hint="run: tpuctl service list"
        )
    return record


def state_note(record: ServiceRecord) -> str:
    """What is said at the start of a service that is not READY; "" for one that is."""
    if record.state is ServiceState.READY:
        return ""
    why = f": {record.why}" if record.why else ""
    return f"service {record.name!r} is {record.state}{why}; requests wait until a replica is ready"


@dataclass(slots=True)
class RecordFollower:
    """Tells a proxy of the replicas that the record has, whenever the record changes."""

    store: Store
    name: str
    update: Callable[[list[ReplicaTarget]], None]
    say: Say
    _generation: int | None = None
    _problem: str = ""

    async def follow(self) -> None:
        """Return once the service is deleted."""
        while await self.look():
            await asyncio.sleep(RECORD_PAUSE_S)

    async def look(self) -> bool:
        """Read the record if it has changed; returns whether the service still exists.

        While it cannot be read, the replicas stay as they were: probes say which of them answer.
        """
        try:
            record = await asyncio.to_thread(self._read_change)
        except NotFoundError:
            self.update([])
            return False
        except TpuctlError as error:
            self._note_problem(f"the record of service {self.name!r} cannot be read: {error}")
            return True
        self._note_problem("")
        if record is None:
            return True
        is_ended = record.ended_s is not None
        self.update([] if is_ended else targets_of(record))
        return not is_ended

    def _read_change(self) -> ServiceRecord | None:
        """The record; None when it is the one that was read before."""
        if service_store.generation(self.store, self.name) == self._generation is not None:
            return None
        stored = service_store.load(self.store, self.name)
        self._generation = stored.generation
        return stored.record

    def _note_problem(self, problem: str) -> None:
        """Say what is wrong once, and once that it is over."""
        if problem and not self._problem:
            self.say(problem)
        elif self._problem and not problem:
            self.say(f"the record of service {self.name!r} can be read again")
        self._problem = problem


@dataclass(slots=True)
class LoadReporter:
    """Writes what a proxy has to do into the bucket, for whoever decides on replicas."""

    store: Store
    name: str
    measure: Callable[[float], ProxyReport]
    """Returns the load now; takes the time of day."""
    now: Callable[[], float]
    monotonic: Callable[[], float] = time.monotonic
    _last: ProxyReport | None = None
    _written_s: float = 0.0
    _generation: int = 0
    _is_asked: bool = False

    async def report(self) -> None:
        """Write reports until cancelled; the last one is then removed."""
        try:
            while True:
                with suppress(TpuctlError):  # the follower of the record says it already
                    await self.write_if_due()
                await asyncio.sleep(REPORT_PAUSE_S)
        finally:
            await self._remove()

    def hurry(self) -> None:
        """Write a report soon: whoever has changed the record waits for what the proxy says now."""
        self._is_asked = True

    async def write_if_due(self) -> None:
        """Write a report when the load or the record has changed, or the last one is old."""
        report = self.measure(self.now())
        if self._last is not None:
            age_s = self.monotonic() - self._written_s
            is_changed = self._is_asked or not _is_same(report, self._last)
            if age_s < (REPORT_CHANGE_S if is_changed else REPORT_LIFE_S):
                return
        self._is_asked = False
        self._generation = await asyncio.to_thread(self._write, report)
        self._last, self._written_s = report, self.monotonic()

    def _write(self, report: ProxyReport) -> int:
        try:
            return service_store.save_report(self.store, self.name, report, self._generation)
        except PreconditionError:
            # An answer was lost, or somebody removed the report of a proxy that was cut off.
            stored = service_store.load_reports(self.store, self.name)
            mine = [each for each in stored if each.report.proxy_id == report.proxy_id]
            generation = mine[0].generation if mine else 0
            return service_store.save_report(self.store, self.name, report, generation)

    async def _remove(self) -> None:
        if self._last is None:
            return
        with suppress(TpuctlError, TimeoutError):
            async with asyncio.timeout(REMOVE_S):
                await asyncio.to_thread(
                    service_store.delete_report,
                    self.store, self.name, self._last.proxy_id, self._generation,
                )  # fmt: skip


def _is_same(one: ProxyReport, other: ProxyReport) -> bool:
    """Whether two reports tell of the same load."""
    return (one.in_flight, one.queued, one.routed) == (other.in_flight, other.queued, other.routed)


@dataclass(slots=True)
class ProxyRun:
    """The proxy of one service, until the service is deleted or the task is cancelled."""

    runtime: ProxyRuntime
    name: str
    say: Say
    proxy: ServiceProxy | None = None
    proxy_id: str = field(default_factory=lambda: secrets.token_hex(6))

    async def serve(self, listener: ProxyListener, on_start: Callable[[], None]) -> None:
        """Answer requests; `on_start` is called when the first one can be taken."""
        from tpuctl.proxy.access_control import AccessControl
        from tpuctl.proxy.proxy_server import ServiceProxy

        access, runtime = AccessControl(listener.token), self.runtime
        store = runtime.store()
        async with ReplicaDialer(runtime.tpu, runtime.access, runtime.sleep) as dialer:
            proxy = self.proxy = ServiceProxy(dialer.dial, listener.limits, access, self.say)
            reporter = LoadReporter(store, self.name, self.measure, runtime.now)
            reporting = asyncio.create_task(reporter.report())

            def update(targets: list[ReplicaTarget]) -> None:
                proxy.update(targets)
                reporter.hurry()

            try:
                async with proxy.serve(listener.listening, listener.tls):
                    on_start()
                    await RecordFollower(store, self.name, update, self.say).follow()
                    self.say(f"service {self.name!r} is deleted")
            finally:
                reporting.cancel()
                with suppress(asyncio.CancelledError):
                    await reporting

    def measure(self, now_s: float) -> ProxyReport:
        """What the proxy has to do now."""
        assert self.proxy is not None
        pool = self.proxy.pool
        return ProxyReport(
            self.proxy_id,
            {str(number): count for number, count in pool.in_flight.items()},
            pool.queued,
            pool.routed,
            pool.requests_total,
            now_s,
        )

    def metrics_text(self) -> str:
        """The page that Prometheus reads."""
        if self.proxy is None:
            return ""
        return exposition(self.proxy.counters.values(self.proxy.pool), PROXY_METRICS)
