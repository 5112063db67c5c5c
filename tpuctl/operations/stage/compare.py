"""Two places compared by size and checksum, or one bucket with itself. Nothing is written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import google_crc32c

from tpuctl.errors import LocalIOError, NotFoundError, TpuctlError, UsageError
from tpuctl.models.transfer import FileIdentity, TransferRefusal, TransferScope
from tpuctl.operations.remote.fanout import WorkerReach
from tpuctl.operations.stage.plan.checksum_cache import ChecksumCache
from tpuctl.operations.stage.plan.endpoints import (
    BucketEndpoint,
    DiskEndpoint,
    Endpoint,
    StreamEndpoint,
    WorkerEndpoint,
)
from tpuctl.operations.stage.plan.names import OWN_PREFIX
from tpuctl.operations.stage.plan.walk import selection, walk_files
from tpuctl.operations.stage.transfer.pool import TransferReport, Unit, carry_out
from tpuctl.operations.stage.workers.ssh import list_files
from tpuctl.operations.stage.workers.staging import Buckets, objects_by_path, shard
from tpuctl.store.crc32c_base64 import decode_crc32c
from tpuctl.store.gcs.bulk import BulkBucket, ObjectInfo

DIFFERS = "differs"
MISSING = "missing"
EXTRA = "extra"
DAMAGED = "damaged"
UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class SideEntry:
    """Size and CRC-32C of a name on one side; no checksum where it could not be read."""

    size_bytes: int
    crc32c: int | None
    unreadable: str | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """A name that differs between two ends; MISSING and EXTRA say what the target has."""

    name: str
    verdict: str
    source_bytes: int | None
    target_bytes: int | None
    worker_id: int | None = None
    why: str | None = None


Side = Mapping[str, SideEntry]
"""What one side has, by its path below what was named ('' for that itself)."""


def check_ends(*ends: Endpoint, is_sharded: bool) -> None:
    """Refuse ends that cannot be compared. Raises UsageError."""
    if any(isinstance(end, StreamEndpoint) for end in ends):
        raise UsageError("a stream cannot be verified", hint="name a path, gs:// or worker:")
    if not any(isinstance(end, BucketEndpoint) for end in ends):
        raise UsageError(
            "one of the two must be gs://", hint="verify each of them against the bucket"
        )
    if is_sharded and not any(isinstance(end, WorkerEndpoint) for end in ends):
        raise UsageError("--shard is about the workers of a slice", hint="leave --shard out")


def compare_ends(
    buckets: Buckets,
    here: Endpoint,
    there: Endpoint,
    reach: WorkerReach | None,
    *,
    is_sharded: bool,
) -> tuple[list[Difference], int]:
    """Compare two ends; returns their differences, and how many names the source has.

    `reach` leads to the workers of the one end that is on workers. Raises NotFoundError,
    LocalIOError, TransientError.
    """
    if isinstance(here, WorkerEndpoint):
        turned, count = compare_ends(buckets, there, here, reach, is_sharded=is_sharded)
        return [_swap_sides(difference) for difference in turned], count
    ends = here, there
    # A whole bucket is compared without what tpuctl keeps in it, and so is its counterpart.
    is_whole = any(isinstance(end, BucketEndpoint) and not end.name for end in ends)
    hidden = (OWN_PREFIX,) if is_whole else ()
    source = _without(hidden, _side(buckets, here))
    if reach is None or not isinstance(there, WorkerEndpoint):
        target = _without(hidden, _side(buckets, there))
        return list(compare_sides(source, target)), len(source)
    listed = list_files(reach, there.path, "crc32c")
    differences: list[Difference] = []
    for worker in reach.workers:
        names = list(source)
        if is_sharded:
            names = shard(names, worker.worker_id, reach.node.worker_count)
        part = {name: source[name] for name in names}
        held = {
            file.path: SideEntry(file.size_bytes, decode_crc32c(file.checksum))
            for file in listed[worker.worker_id]
        }
        target = _without(hidden, held)
        differences += compare_sides(part, target, worker_id=worker.worker_id)
    return differences, len(source)


def _without(prefixes: tuple[str, ...], side: Side) -> Side:
    return {name: entry for name, entry in side.items() if not name.startswith(prefixes)}


def _side(buckets: Buckets, end: Endpoint) -> Side:
    match end:
        case DiskEndpoint(path):
            return _disk_side(path, buckets.checksums)
        case BucketEndpoint(bucket, name):
            entries = objects_by_path(buckets.open_bucket(bucket), name)
            return {
                path: SideEntry(entry.size_bytes, entry.crc32c) for path, entry in entries.items()
            }
    raise UsageError("that cannot be verified")


def _swap_sides(difference: Difference) -> Difference:
    """The difference with source and target exchanged."""
    other = {MISSING: EXTRA, EXTRA: MISSING}
    return replace(
        difference,
        verdict=other.get(difference.verdict, difference.verdict),
        source_bytes=difference.target_bytes,
        target_bytes=difference.source_bytes,
    )


def compare_sides(
    source: Side, target: Side, *, worker_id: int | None = None
) -> Iterator[Difference]:
    """Yield each name whose size or checksum differs between two sides, in the order of names."""
    for name in sorted({*source, *target}):
        here, there = source.get(name), target.get(name)
        verdict, why = _verdict(here, there)
        if verdict:
            yield Difference(
                name,
                verdict,
                here.size_bytes if here else None,
                there.size_bytes if there else None,
                worker_id,
                why,
            )


def _verdict(here: SideEntry | None, there: SideEntry | None) -> tuple[str | None, str | None]:
    if here is None or there is None:
        return (MISSING if there is None else EXTRA), None
    unreadable = here.unreadable or there.unreadable
    if unreadable:
        return UNREADABLE, unreadable
    if here.size_bytes != there.size_bytes:
        return DIFFERS, "size"
    if here.crc32c is None or here.crc32c != there.crc32c:
        return DIFFERS, "crc32c"
    return None, None


def _disk_side(path: Path, checksums: ChecksumCache) -> Side:
    """Read the sizes and checksums of the files of a directory that push would take, or of a file.

    Raises NotFoundError, LocalIOError.
    """
    try:
        if path.is_file():
            return {"": _read_entry(str(path), FileIdentity.of(path.stat()), checksums)}
        is_directory = path.is_dir()
    except OSError as error:
        raise LocalIOError(f"cannot read {path}: {error.strerror}") from error
    if not is_directory:
        raise NotFoundError(f"there is no file or directory {path}", hint="check the path")
    return dict(_walk_side(str(path), checksums))


def reread_objects(
    bulk: BulkBucket, entries: Mapping[str, ObjectInfo], advance: Callable[[int], None]
) -> list[Difference]:
    """Fetch every object, and name those whose bytes differ from the stored checksum."""
    damaged: list[Difference] = []
    units: Iterator[Unit] = (
        partial(_reread, bulk, name, entry, damaged) for name, entry in entries.items()
    )
    for event in carry_out(units):
        advance(getattr(event, "size_bytes", 0))
    return sorted(damaged, key=lambda difference: difference.name)


def _reread(
    bulk: BulkBucket, name: str, entry: ObjectInfo, damaged: list[Difference],
    report: TransferReport,
) -> None:  # fmt: skip
    checksum = 0

    def take(block: bytes) -> None:
        nonlocal checksum
        checksum = google_crc32c.extend(checksum, block)
        report.progress(len(block))

    try:
        bulk.download(entry.key, entry.generation, 0, entry.size_bytes, take)
    except TpuctlError as error:
        damaged.append(Difference(name, UNREADABLE, entry.size_bytes, None, why=str(error)))
        return
    if checksum != entry.crc32c:
        why = "the bytes received are not the bytes stored"
        damaged.append(Difference(name, DAMAGED, entry.size_bytes, entry.size_bytes, why=why))


def _walk_side(root: str, checksums: ChecksumCache) -> Iterator[tuple[str, SideEntry]]:
    for found in walk_files(root, selection(root, TransferScope())):
        if isinstance(found, TransferRefusal):
            yield found.name, SideEntry(0, None, found.why)
        else:
            name, leads_to, identity = found
            yield name, _read_entry(os.path.join(root, leads_to), identity, checksums)  # noqa: PTH118


def _read_entry(path: str, identity: FileIdentity, checksums: ChecksumCache) -> SideEntry:
    try:
        return SideEntry(identity.size_bytes, checksums.of(path, identity))
    except OSError as error:
        return SideEntry(identity.size_bytes, None, str(error.strerror or error))
    except TpuctlError as error:
        return SideEntry(identity.size_bytes, None, str(error))
