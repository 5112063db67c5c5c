"""`data push` and `pull` where one end is on workers: planned first, then carried out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from tpuctl.errors import LocalIOError, NotFoundError, TpuctlError, UsageError
from tpuctl.models.delivery import Delivery, Meter
from tpuctl.models.node import Worker
from tpuctl.models.transfer import CopyOptions, TransferPlan, TransferRefusal
from tpuctl.operations.remote.fanout import WorkerReach
from tpuctl.operations.stage.plan.egress_price import egress_warning
from tpuctl.operations.stage.plan.endpoints import (
    BucketEndpoint,
    DiskEndpoint,
    Endpoint,
    WorkerEndpoint,
)
from tpuctl.operations.stage.plan.names import refused_error
from tpuctl.operations.stage.plan.push_plan import plan_push
from tpuctl.operations.stage.plan.walk import Selection, selection, walk_files
from tpuctl.operations.stage.transfer.pool import finished_transfers
from tpuctl.operations.stage.transfer.push_files import push
from tpuctl.operations.stage.transfer.streams import push_stream
from tpuctl.operations.stage.workers import ssh
from tpuctl.operations.stage.workers.staging import (
    STAGING_PREFIX,
    Buckets,
    PlacedObject,
    deliver,
    fetch_archive,
    place_objects,
    shard,
    single_target,
    staging_prefix,
)

if TYPE_CHECKING:
    from tpuctl.agent.copy.packing import PackEntry
    from tpuctl.store.gcs.bulk import BulkBucket

T = TypeVar("T")
Warn = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class CopyResult:
    """The result on every worker, and how many of `uploads` failed before that."""

    deliveries: Sequence[Delivery]
    failed_uploads: int = 0
    uploads: int = 0


@dataclass(frozen=True, slots=True)
class StagedObjects:
    """Objects of a bucket for the workers, and the directory of theirs that they go to."""

    bulk: BulkBucket
    root: str
    objects: Sequence[PlacedObject]


@dataclass(frozen=True, slots=True)
class WorkerCopy:
    """A planned copy. `rows` are (worker ID, path of the target, size in bytes)."""

    reach: WorkerReach
    rows: Sequence[tuple[int, str, int]]
    carry_out: Callable[[Meter, Warn], CopyResult] = field(repr=False)
    """Copies; `Warn` gets the text of what goes wrong before the workers have their part."""
    refusals: Sequence[TransferRefusal] = ()
    egress: str | None = None
    """What the workers pay for reading the bucket, where that costs something."""


def plan_to_workers(
    buckets: Buckets,
    reach: WorkerReach,
    source: Endpoint,
    place: WorkerEndpoint,
    options: CopyOptions,
    stdin: Callable[[], BinaryIO],
) -> WorkerCopy:
    """Plan a push. One worker gets files through SSH; several fetch them from a bucket.

    Raises UsageError, NotFoundError, LocalIOError.
    """
    match source:
        case DiskEndpoint(path) if place.is_one:
            return _plan_through_ssh(reach, path, place.path, options)
        case DiskEndpoint(path):
            return _plan_staged_files(buckets, reach, path, place.path, options)
        case BucketEndpoint(bucket, name):
            bulk = buckets.open_bucket(bucket)
            root, objects = place_objects(bulk, name, place.path)
            chosen = Selection(options.scope.include, options.scope.exclude)
            taken = [one for one in objects if chosen.matches(one.path)]
            rows = _rows(reach, root, {one.path: one.entry.size_bytes for one in taken}, options)
            staged = StagedObjects(bulk, root, taken)
            fetch = partial(_fetch, buckets, reach, staged, options)
            egress = _egress(reach, bulk, rows)
            return WorkerCopy(reach, rows, lambda meter, _: CopyResult(fetch(meter)), egress=egress)
    return _plan_staged_stream(buckets, reach, place, options, stdin)


def plan_from_workers(
    reach: WorkerReach, place: WorkerEndpoint, target: str, options: CopyOptions
) -> WorkerCopy:
    """Plan a pull; the files of several workers go below a directory with the worker's ID each.

    Raises NotFoundError, LocalIOError, TransientError.
    """
    # A trailing slash is lost in a Path, and says that the target is a directory.
    is_folder = target.endswith("/") or Path(target).is_dir()
    chosen = Selection(options.scope.include, options.scope.exclude)
    pulls, rows = {}, []
    for worker_id, listed in ssh.list_files(reach, place.path, "sha256").items():
        is_file = [one.path for one in listed] == [""] and not is_folder
        root, name = _local_root(place, Path(target), worker_id, is_file=is_file)
        taken = [one for one in listed if not one.path or chosen.matches(one.path)]
        files = {one.path or name: one for one in taken}
        rows += [(worker_id, str(root / below), one.size_bytes) for below, one in files.items()]
        pulls[worker_id] = ssh.WorkerPull(str(root.absolute()), files)
    fetch = partial(ssh.fetch_files, reach, place.path, pulls)
    return WorkerCopy(reach, rows, lambda meter, _: CopyResult(fetch(meter)))


def read_from_worker(
    reach: WorkerReach, place: WorkerEndpoint, write: Callable[[bytes], object]
) -> None:
    """Give one file of one worker to `write`. Raises NotFoundError, IntegrityError at its end."""
    (found,) = ssh.list_files(reach, place.path, "sha256").values()
    if [one.path for one in found] != [""]:
        raise NotFoundError(f"{place.path} is no file", hint="a directory needs a path to go to")
    ssh.read_file(reach, place.path, found[0], write)


def _plan_through_ssh(
    reach: WorkerReach, source: Path, target: str, options: CopyOptions
) -> WorkerCopy:
    chosen = selection(str(source), options.scope)
    root, files, refusals = _outgoing_files(source, target, chosen)
    part = _part_of(reach, reach.workers[0], files, lambda one: one.path, options)
    rows = _rows(reach, root, {one.path: one.size_bytes for one in files}, options)
    send = partial(ssh.send_files, reach, part, root)
    return WorkerCopy(reach, rows, lambda meter, _: CopyResult(send(meter)), refusals)


def _plan_staged_files(
    buckets: Buckets, reach: WorkerReach, source: Path, target: str, options: CopyOptions
) -> WorkerCopy:
    """Push once to the context's bucket, and let every worker fetch it from there."""
    bulk = buckets.open_bucket(buckets.own)
    prefix = staging_prefix(source)
    plan = plan_push(str(source), bulk, prefix, buckets.checksums, options.scope)
    root, single = single_target(target, source.name) if source.is_file() else (target, None)

    def path_of(key: str) -> str:
        return single or key.removeprefix(prefix)

    def carry_out(meter: Meter, warn: Warn) -> CopyResult:
        if not plan.transfers and plan.refusals:
            raise refused_error(len(plan.refusals))
        if not plan.transfers:
            raise NotFoundError(f"{plan.root} holds no files", hint="check the path")
        failed = _push_to_staging(plan, bulk, meter, warn)
        planned = {one.key: one.size_bytes for one in plan.transfers if one.key not in failed}
        objects = [
            PlacedObject(one, path_of(one.key))
            for one in bulk.list(prefix)
            if planned.get(one.key) == one.size_bytes
        ]
        staged = StagedObjects(bulk, root, objects)
        deliveries = _fetch(buckets, reach, staged, options, meter)
        uploads = len(plan.transfers)
        return CopyResult(deliveries, uploads - len(objects), uploads)

    sizes = {path_of(one.key): one.size_bytes for one in plan.transfers}
    rows = _rows(reach, root, sizes, options)
    return WorkerCopy(reach, rows, carry_out, plan.refusals, _egress(reach, bulk, rows))


def _plan_staged_stream(
    buckets: Buckets,
    reach: WorkerReach,
    place: WorkerEndpoint,
    options: CopyOptions,
    stdin: Callable[[], BinaryIO],
) -> WorkerCopy:
    root, name = single_target(place.path, "")
    if not name:
        raise UsageError("a stream needs a name", hint=f"write {place.path}NAME")
    bulk = buckets.open_bucket(buckets.own)
    digest = hashlib.sha256(f"{place.node}:{place.path}".encode()).hexdigest()[:32]
    key = f"{STAGING_PREFIX}{digest}/{name}"

    def carry_out(meter: Meter, warn: Warn) -> CopyResult:
        objects = [PlacedObject(push_stream(stdin(), bulk, key, warn), name)]
        staged = StagedObjects(bulk, root, objects)
        return CopyResult(_fetch(buckets, reach, staged, options, meter))

    return WorkerCopy(reach, (), carry_out)


def _push_to_staging(plan: TransferPlan, bulk: BulkBucket, meter: Meter, warn: Warn) -> set[str]:
    """Push what the plan says; returns the keys that failed. Raises an error when all did."""
    errors: dict[str, TpuctlError] = {}
    meter.expect(len(plan.to_send), plan.size_bytes)
    for subject, error, _ in finished_transfers(push(plan, bulk), meter, warn):
        if error is not None:
            errors[subject.key] = error
            warn(f"{subject.name}: {error}")
    if errors and len(errors) == len(plan.transfers):
        raise next(iter(errors.values()))
    return set(errors)


def _fetch(
    buckets: Buckets, reach: WorkerReach, staged: StagedObjects, options: CopyOptions, meter: Meter
) -> list[Delivery]:
    """Let every worker fetch the objects, or its part of them."""
    objects = staged.objects
    parts = {
        worker.worker_id: _part_of(reach, worker, objects, lambda one: one.path, options)
        for worker in reach.workers
    }
    pack = partial(fetch_archive, buckets.endpoint, staged.bulk.name, staged.root)
    shared = None if options.is_sharded else pack(objects)
    size_bytes = sum(one.entry.size_bytes for part in parts.values() for one in part)
    meter.expect(sum(map(len, parts.values())), size_bytes)
    return deliver(reach, lambda worker: shared or pack(parts[worker.worker_id]), meter)


def _rows(
    reach: WorkerReach, root: str, sizes: Mapping[str, int], options: CopyOptions
) -> list[tuple[int, str, int]]:
    return [
        (worker.worker_id, str(PurePosixPath(root, path)), sizes[path])
        for worker in reach.workers
        for path in _part_of(reach, worker, list(sizes), str, options)
    ]


def _part_of(
    reach: WorkerReach, worker: Worker, items: Sequence[T], name: Callable[[T], str],
    options: CopyOptions,
) -> list[T]:  # fmt: skip
    """What a worker gets: everything, or with --shard its part among all workers of the node."""
    if not options.is_sharded:
        return list(items)
    return shard(items, worker.worker_id, reach.node.worker_count, name=name)


def _egress(
    reach: WorkerReach, bulk: BulkBucket, rows: Sequence[tuple[int, str, int]]
) -> str | None:
    return egress_warning(bulk, reach.node.zone, sum(row[2] for row in rows))


def _outgoing_files(
    source: Path, target: str, chosen: Selection
) -> tuple[str, list[PackEntry], list[TransferRefusal]]:
    try:
        if source.is_file():
            root, name = single_target(target, source.name)
            return root, [ssh.outgoing_file(name, source)], []
        is_directory = source.is_dir()
    except OSError as error:
        raise LocalIOError(f"cannot read {source}: {error.strerror}") from error
    if not is_directory:
        raise NotFoundError(f"there is no file or directory {source}", hint="check the path")
    files, refusals = [], []
    for found in walk_files(str(source), chosen):
        if isinstance(found, TransferRefusal):
            refusals.append(TransferRefusal(str(source / found.name), found.why))
            continue
        name, leads_to, _ = found
        try:
            files.append(ssh.outgoing_file(name, source / leads_to))
        except OSError as error:
            refusals.append(TransferRefusal(str(source / name), str(error.strerror)))
    return target, files, refusals


def _local_root(
    place: WorkerEndpoint, target: Path, worker_id: int, *, is_file: bool
) -> tuple[Path, str]:
    """The directory that a worker's files go to, and the name of a single one in it."""
    name = PurePosixPath(place.path).name
    if not place.is_one:
        return target / str(worker_id), name
    return (target.parent, target.name) if is_file else (target, name)
