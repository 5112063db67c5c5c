"""Where the engines of a service's replicas run, and what their ready paths say."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from tpuctl.errors import TpuctlError
from tpuctl.jobs.interfaces import Backends, Clocks
from tpuctl.jobs.services import readiness
from tpuctl.jobs.services.service_observation import ReplicaSlice
from tpuctl.jobs.slices.pending_calls import PendingCalls
from tpuctl.models.inference.serve_spec import ServeSpec
from tpuctl.models.inference.service_record import Replica, ReplicaAddress, ReplicaState
from tpuctl.models.job import Attempt, AttemptState, JobRecord
from tpuctl.models.node import Node

LOADING_PROBE_S = 1.0
READY_PROBE_S = 3.0


@dataclass(slots=True)
class _Engine:
    attempt: int
    serve: ServeSpec
    node: Node
    is_ready: bool | None = None
    asked: float = float("-inf")
    probe: asyncio.Task[bool] | None = None


@dataclass(slots=True)
class EngineWatcher:
    """Finds the slices whose engines run, and asks each from time to time whether it is ready."""

    backends: Backends
    clocks: Clocks
    changed: Callable[[], None]
    """Called when an engine has answered."""
    report: Callable[[str], None]
    """Told what went wrong."""
    engines: dict[int, _Engine] = field(default_factory=dict)
    pending_calls: PendingCalls = field(init=False)

    def __post_init__(self) -> None:
        self.pending_calls = PendingCalls(self.clocks.monotonic)

    async def look(
        self, replicas: Iterable[tuple[Replica, ServeSpec]], jobs: Mapping[str, JobRecord | None]
    ) -> None:
        """Look for the engines of these replicas, given their jobs."""
        running = {}
        for replica, serve in replicas:
            attempt = _running_attempt(jobs.get(replica.job_id))
            if attempt is not None:
                running[replica.number] = attempt.number
                await self._find(replica, serve, attempt)
        for number in [n for n, each in self.engines.items() if running.get(n) != each.attempt]:
            self._drop(number)

    def slices(self) -> Mapping[int, ReplicaSlice]:
        """What is known of the engines, by replica number."""
        return {number: _slice_of(engine) for number, engine in self.engines.items()}

    async def close(self) -> None:
        """Ask no engine any more."""
        probes = [each.probe for each in self.engines.values() if each.probe is not None]
        for probe in probes:
            probe.cancel()
        await asyncio.gather(*probes, return_exceptions=True)

    async def _find(self, replica: Replica, serve: ServeSpec, attempt: Attempt) -> None:
        engine = self.engines.get(replica.number)
        if engine is None or engine.attempt != attempt.number:
            self._drop(replica.number)
            node = await self._node(attempt)
            if node is None:
                return
            engine = self.engines[replica.number] = _Engine(attempt.number, serve, node)
        if replica.state != ReplicaState.DRAINING:
            self._probe(engine)

    async def _node(self, attempt: Attempt) -> Node | None:
        """The node of an attempt with its addresses; None while it cannot be asked for."""
        name = attempt.nodes[0]
        what = f"get node {name}"
        if not self.pending_calls.is_due(what):
            return None
        get = partial(self.backends.tpu.get_node, attempt.zone, name)
        try:
            node = await self.pending_calls.answer(what, get)
        except TpuctlError as error:
            self.report(str(error))
            return None
        return node if node.workers else None

    def _probe(self, engine: _Engine) -> None:
        """Take the answer of the ready path when it is there, and ask again when that is due."""
        if engine.probe is not None:
            if not engine.probe.done():
                return
            engine.is_ready, engine.probe = engine.probe.result(), None
        every_s = READY_PROBE_S if engine.is_ready else LOADING_PROBE_S
        now, dial = self.clocks.monotonic(), self.backends.dial_port
        if now - engine.asked < every_s or dial is None:
            return
        engine.asked, serve = now, engine.serve
        worker = engine.node.workers[0]
        asking = readiness.is_ready(dial, engine.node, worker, serve.port, serve.ready)
        engine.probe = asyncio.create_task(asking)
        engine.probe.add_done_callback(lambda _task: self.changed())

    def _drop(self, number: int) -> None:
        engine = self.engines.pop(number, None)
        if engine is not None and engine.probe is not None:
            engine.probe.cancel()


def _running_attempt(job: JobRecord | None) -> Attempt | None:
    """The attempt of a job whose program runs."""
    attempt = job.attempt if job is not None else None
    return attempt if attempt is not None and attempt.state == AttemptState.RUNNING else None


def _slice_of(engine: _Engine) -> ReplicaSlice:
    worker = engine.node.workers[0]
    address = ReplicaAddress(
        zone=engine.node.zone,
        node=engine.node.name,
        worker_id=worker.worker_id,
        ip_address=worker.ip_address,
        external_ip=worker.external_ip,
        port=engine.serve.port,
    )
    return ReplicaSlice(engine.attempt, address, engine.is_ready)
