"""`tpuctl data verify`: what is not the same at both ends, by name; nothing is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tpuctl.cli.shell.progress_display import show_byte_bar
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.worker_access import reach_workers
from tpuctl.errors import IntegrityError, UsageError
from tpuctl.models.node import Worker
from tpuctl.operations.remote.fanout import WorkerReach
from tpuctl.operations.stage import compare as stage_verify
from tpuctl.operations.stage.compare import Difference, Side
from tpuctl.operations.stage.plan.endpoints import (
    BucketEndpoint,
    DiskEndpoint,
    Endpoint,
    StreamEndpoint,
    WorkerEndpoint,
    parse,
)
from tpuctl.operations.stage.workers import ssh
from tpuctl.operations.stage.workers.staging import shard

DIFFERENCE_COLUMNS = {
    "name": lambda one: one.name,
    "verdict": lambda one: one.verdict,
    "worker": lambda one: one.worker_id,
    "source_bytes": lambda one: one.source_bytes,
    "target_bytes": lambda one: one.target_bytes,
    "why": lambda one: one.why,
}


def verify(runtime: Runtime, source: str, target: str | None, *, is_sharded: bool) -> None:
    """Compare two ends, or one bucket with its own checksums. IntegrityError, UsageError."""
    here = parse(source)
    if target is None:
        if not isinstance(here, BucketEndpoint) or is_sharded:
            raise UsageError(
                "one end alone can only be gs://: its objects are read again",
                hint="name two: tpuctl data verify SOURCE TARGET",
            )
        findings, count = _reread_bucket(runtime, here)
    else:
        there = parse(target)
        _check_ends(here, there, is_sharded=is_sharded)
        findings, count = _compare_ends(runtime, here, there, is_sharded=is_sharded)
    runtime.output.items(findings, DIFFERENCE_COLUMNS)
    if findings:
        counts = Counter(one.verdict for one in findings)
        told = ", ".join(f"{number} {verdict}" for verdict, number in sorted(counts.items()))
        raise IntegrityError(f"not the same: {told}", hint="copy again what is named above")
    names = "1 name" if count == 1 else f"{count} names"
    runtime.output.note(f"{names}: every size and checksum is the same")


def _check_ends(here: Endpoint, there: Endpoint, *, is_sharded: bool) -> None:
    ends = (here, there)
    if any(isinstance(end, StreamEndpoint) for end in ends):
        raise UsageError("a stream cannot be verified", hint="name a path, gs:// or worker:")
    if not any(isinstance(end, BucketEndpoint) for end in ends):
        raise UsageError(
            "one of the two must be gs://", hint="verify each of them against the bucket"
        )
    if is_sharded and not any(isinstance(end, WorkerEndpoint) for end in ends):
        raise UsageError("--shard is about the workers of a slice", hint="leave --shard out")


def _reread_bucket(runtime: Runtime, place: BucketEndpoint) -> tuple[list[Difference], int]:
    bulk = runtime.bulk(place.bucket)
    found = stage_verify.objects_by_path(bulk, place.name)
    size_bytes = sum(one.size_bytes for one in found.values())
    runtime.output.note(f"reading {len(found)} objects, {size_bytes} bytes (charged as egress)")
    with show_byte_bar(runtime, size_bytes) as advance:
        return list(stage_verify.reread_objects(bulk, found, advance)), len(found)


def _compare_ends(
    runtime: Runtime, here: Endpoint, there: Endpoint, *, is_sharded: bool
) -> tuple[list[Difference], int]:
    if isinstance(here, WorkerEndpoint):
        turned, count = _compare_ends(runtime, there, here, is_sharded=is_sharded)
        return [_swap_sides(one) for one in turned], count
    scope = _scope(here, there)
    source = scope(_side(runtime, here))
    if not isinstance(there, WorkerEndpoint):
        target = scope(_side(runtime, there))
        return list(stage_verify.compare_sides(source, target)), len(source)
    reached = reach_workers(runtime, there)
    remote = ssh.list_files(reached, there.path, "crc32c")
    findings: list[Difference] = []
    for worker in reached.workers:
        part = _part(source, worker, reached) if is_sharded else source
        held = scope(stage_verify.worker_side(remote[worker.worker_id]))
        findings += stage_verify.compare_sides(part, held, worker_id=worker.worker_id)
    return findings, len(source)


def _scope(*ends: Endpoint) -> Callable[[Side], Side]:
    """What of each side takes part."""
    is_whole_bucket = any(isinstance(end, BucketEndpoint) and not end.name for end in ends)
    return stage_verify.without_own_objects if is_whole_bucket else lambda side: side


def _side(runtime: Runtime, end: Endpoint) -> Side:
    match end:
        case DiskEndpoint(path):
            return stage_verify.disk_side(Path(path), runtime.checksums)
        case BucketEndpoint(bucket, name):
            return stage_verify.bucket_side(runtime.bulk(bucket), name)
    raise UsageError("that cannot be verified")


def _part(source: Side, worker: Worker, reached: WorkerReach) -> Side:
    names = shard(list(source), worker.worker_id, reached.node.worker_count, name=lambda name: name)
    return {name: source[name] for name in names}


def _swap_sides(one: Difference) -> Difference:
    """The same, seen from the other end."""
    other = {stage_verify.MISSING: stage_verify.EXTRA, stage_verify.EXTRA: stage_verify.MISSING}
    return Difference(
        one.name,
        other.get(one.verdict, one.verdict),
        one.target_bytes,
        one.source_bytes,
        one.worker_id,
        one.why,
    )
