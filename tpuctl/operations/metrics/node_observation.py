"""What is known of a node: what the API and its workers report, and who uses its chips."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from tpuctl.errors import DamagedStateError, NotFoundError, TpuctlError
from tpuctl.jobs.leases import lease
from tpuctl.jobs.record import record_store
from tpuctl.metrics.chip_state import ChipState
from tpuctl.metrics.findings import windows
from tpuctl.metrics.findings.observation import ChipUser, Observation
from tpuctl.metrics.samples import WorkerSamples
from tpuctl.models.job import Attempt, AttemptState
from tpuctl.models.node import Node, NodeState
from tpuctl.operations.metrics.job_observation import WINDOW_S
from tpuctl.operations.metrics.node_metrics import node_metrics
from tpuctl.operations.remote.fanout import WorkerReach
from tpuctl.operations.slices import cost
from tpuctl.operations.slices.flex_start import with_flex_start
from tpuctl.operations.workers import access as worker_access
from tpuctl.operations.workers import chip_holders

if TYPE_CHECKING:
    from tpuctl.api.ssh.keys import Access
    from tpuctl.operations.jobs.events import JobRuntime


def observe_node(runtime: JobRuntime, access: Access, node: Node) -> Observation:
    """Return what the API and its workers report now, and what was measured before."""
    (node,) = with_flex_start(runtime.tpu, [node])
    usd = cost.usd_per_hour(node.accelerator_type, node.zone, node.provisioning)
    seen = Observation(
        runtime.now(), node=node, zone=runtime.context.zone, usd_per_hour=usd, is_live=True
    )
    if node.state != NodeState.READY:
        return seen
    _, ours = worker_access.accessible_node(
        runtime.tpu, access, node.zone, node.name, runtime.sleep
    )
    reach = WorkerReach(runtime.tpu, ours, node, node.workers)
    found = node_metrics(reach, runtime.home, runtime.now() - WINDOW_S, runtime.now)
    silent = {each.worker_id for each in node.workers} - found.measured
    series = [each for each in found.series if each.worker_id in found.measured]
    seen = replace(
        seen,
        now_s=runtime.now(),
        series=series,
        unreached={
            worker_id: found.missing.get(worker_id, "it did not answer")
            for worker_id in sorted(silent)
        },
        clock_off_s=found.clock_off_s,
    )
    return replace(seen, holders=_holders(reach, series), is_used=_is_used(runtime, seen))


def _holders(reach: WorkerReach, series: Sequence[WorkerSamples]) -> dict[int, list[ChipUser]]:
    """Who holds the chips of the workers on which no program is loaded."""
    held = {
        each.worker_id
        for each in series
        if windows.state_since(each, ChipState.HELD) is not None
    }  # fmt: skip
    if not held:
        return {}
    workers = [each for each in reach.workers if each.worker_id in held]
    return {
        use.worker_id: [
            ChipUser(f"pid {each.pid} of {each.user}: {each.command}", each.since_s, each.job)
            for each in use.holders
        ]
        for use in chip_holders.find_holders(replace(reach, workers=workers))
    }


def _is_used(runtime: JobRuntime, seen: Observation) -> bool | None:
    """Whether an attempt of an open job has the node; None where the bucket does not tell."""
    node = seen.node
    if node is None or not any(
        windows.state_since(each, ChipState.FREE) is not None for each in seen.series
    ):
        return None
    try:
        return any(node.node_id in attempt.node_ids for attempt in _open_attempts(runtime))
    except TpuctlError:
        return None


def _open_attempts(runtime: JobRuntime) -> Iterator[Attempt]:
    store = runtime.store()
    for entry in list(store.list(lease.LEASES)):
        with suppress(NotFoundError, DamagedStateError):
            job = record_store.load(store, entry.key.removeprefix(lease.LEASES)).record
            if job.attempt and job.attempt.state != AttemptState.ENDED and not job.is_ended:
                yield job.attempt
