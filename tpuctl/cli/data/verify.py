"""`tpuctl data verify`: what is not the same at both ends, by name; nothing is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tpuctl.cli.shell.progress import byte_bar
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.worker_access import reach
from tpuctl.errors import IntegrityError, UsageError
from tpuctl.models.node import Worker
from tpuctl.operations.stage import verify as stage_verify
from tpuctl.operations.stage.plan.endpoints import (
    Endpoint,
    InBucket,
    OnDisk,
    OnWorkers,
    Stream,
    parse,
)
from tpuctl.operations.stage.verify import Finding, Side
from tpuctl.operations.stage.workers import ssh
from tpuctl.operations.stage.workers.shards import shard
from tpuctl.operations.stage.workers.workers import Reach

FINDINGS = {
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
        if not isinstance(here, InBucket) or is_sharded:
            raise UsageError(
                "one end alone can only be gs://: its objects are read again",
                hint="name two: tpuctl data verify SOURCE TARGET",
            )
        findings, count = _read_again(runtime, here)
    else:
        there = parse(target)
        _check_ends(here, there, is_sharded=is_sharded)
        findings, count = _compared(runtime, here, there, is_sharded=is_sharded)
    runtime.output.items(findings, FINDINGS)
    if findings:
        counts = Counter(one.verdict for one in findings)
        told = ", ".join(f"{number} {verdict}" for verdict, number in sorted(counts.items()))
        raise IntegrityError(f"not the same: {told}", hint="copy again what is named above")
    names = "1 name" if count == 1 else f"{count} names"
    runtime.output.note(f"{names}: every size and checksum is the same")


def _check_ends(here: Endpoint, there: Endpoint, *, is_sharded: bool) -> None:
    ends = (here, there)
    if any(isinstance(end, Stream) for end in ends):
        raise UsageError("a stream cannot be verified", hint="name a path, gs:// or worker:")
    if not any(isinstance(end, InBucket) for end in ends):
        raise UsageError(
            "one of the two must be gs://", hint="verify each of them against the bucket"
        )
    if is_sharded and not any(isinstance(end, OnWorkers) for end in ends):
        raise UsageError("--shard is about the workers of a slice", hint="leave --shard out")


def _read_again(runtime: Runtime, place: InBucket) -> tuple[list[Finding], int]:
    bulk = runtime.bulk(place.bucket)
    found = stage_verify.objects(bulk, place.name)
    size_bytes = sum(one.size_bytes for one in found.values())
    runtime.output.note(f"reading {len(found)} objects, {size_bytes} bytes (charged as egress)")
    with byte_bar(runtime, size_bytes) as advance:
        return list(stage_verify.read_again(bulk, found, advance)), len(found)


def _compared(
    runtime: Runtime, here: Endpoint, there: Endpoint, *, is_sharded: bool
) -> tuple[list[Finding], int]:
    if isinstance(here, OnWorkers):
        turned, count = _compared(runtime, there, here, is_sharded=is_sharded)
        return [_turned(one) for one in turned], count
    scope = _scope(here, there)
    source = scope(_side(runtime, here))
    if not isinstance(there, OnWorkers):
        target = scope(_side(runtime, there))
        return list(stage_verify.compared(source, target)), len(source)
    reached = reach(runtime, there)
    remote = ssh.listed(reached, there.path, "crc32c")
    findings: list[Finding] = []
    for worker in reached.workers:
        part = _part(source, worker, reached) if is_sharded else source
        held = scope(stage_verify.on_worker(remote[worker.worker_id]))
        findings += stage_verify.compared(part, held, worker_id=worker.worker_id)
    return findings, len(source)


def _scope(*ends: Endpoint) -> Callable[[Side], Side]:
    """What of each side takes part."""
    is_whole_bucket = any(isinstance(end, InBucket) and not end.name for end in ends)
    return stage_verify.without_own if is_whole_bucket else lambda side: side


def _side(runtime: Runtime, end: Endpoint) -> Side:
    match end:
        case OnDisk(path):
            return stage_verify.on_disk(Path(path), runtime.checksums)
        case InBucket(bucket, name):
            return stage_verify.in_bucket(runtime.bulk(bucket), name)
    raise UsageError("that cannot be verified")


def _part(source: Side, worker: Worker, reached: Reach) -> Side:
    names = shard(list(source), worker.worker_id, reached.node.worker_count, name=lambda name: name)
    return {name: source[name] for name in names}


def _turned(one: Finding) -> Finding:
    """The same, seen from the other end."""
    other = {stage_verify.MISSING: stage_verify.EXTRA, stage_verify.EXTRA: stage_verify.MISSING}
    return Finding(
        one.name,
        other.get(one.verdict, one.verdict),
        one.target_bytes,
        one.source_bytes,
        one.worker_id,
        one.why,
    )
