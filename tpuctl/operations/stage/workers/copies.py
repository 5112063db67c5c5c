"""`data push` and `pull` where one end is on workers: planned first, then carried out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

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
    deliver,
    fetch_archive,
    place_objects,
    shard,
    single_target,
    staging_prefix,
)

if TYPE_CHECKING:
    from tpuctl.agent.copy.packing import PackEntry
    from tpuctl.store.gcs.bulk import BulkBucket, ObjectInfo

Warn = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class CopyResult:
    """The result on every worker, and how many of `uploads` failed before that."""

    deliveries: Sequence[Delivery]
    failed_uploads: int = 0
    uploads: int = 0


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
    planner = _WorkerPush(buckets, reach, options)
    match source:
        case DiskEndpoint(path) if place.is_one:
            return planner.plan_through_ssh(path, place.path)
        case DiskEndpoint(path):
            return planner.plan_staged_files(path, place.path)
        case BucketEndpoint(bucket, name):
            return planner.plan_objects(buckets.open_bucket(bucket), name, place.path)
    return planner.plan_staged_stream(place, stdin)


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
        is_file = [file.path for file in listed] == [""] and not is_folder
        root, name = _local_root(place, Path(target), worker_id, is_file=is_file)
        chosen_files = [file for file in listed if not file.path or chosen.matches(file.path)]
        files = {file.path or name: file for file in chosen_files}
        rows += [(worker_id, str(root / path), file.size_bytes) for path, file in files.items()]
        pulls[worker_id] = ssh.WorkerPull(str(root.absolute()), files)
    fetch = partial(ssh.fetch_files, reach, place.path, pulls)
    return WorkerCopy(reach, rows, lambda meter, _: CopyResult(fetch(meter)))


def read_from_worker(
    reach: WorkerReach, place: WorkerEndpoint, write: Callable[[bytes], object]
) -> None:
    """Give one file of one worker to `write`. Raises NotFoundError, IntegrityError at its end."""
    (files,) = ssh.list_files(reach, place.path, "sha256").values()
    if [file.path for file in files] != [""]:
        raise NotFoundError(f"{place.path} is not a file", hint="a directory needs a path to go to")
    ssh.read_file(reach, place.path, files[0], write)


@dataclass(frozen=True, slots=True)
class _WorkerPush:
    """A push to workers while it is planned, and the parts of it that are carried out later."""

    buckets: Buckets
    reach: WorkerReach
    options: CopyOptions

    def plan_through_ssh(self, source: Path, target: str) -> WorkerCopy:
        """Plan to send files of this machine to the only worker of the reach."""
        chosen = selection(str(source), self.options.scope)
        root, files, refusals = _outgoing_files(source, target, chosen)
        part = [files[path] for path in self._part_of(self.reach.workers[0], files)]
        rows = self._rows(root, {path: file.size_bytes for path, file in files.items()})
        send = partial(ssh.send_files, self.reach, part, root)
        return WorkerCopy(self.reach, rows, lambda meter, _: CopyResult(send(meter)), refusals)

    def plan_objects(self, bulk: BulkBucket, name: str, target: str) -> WorkerCopy:
        """Plan that every worker fetches objects of a bucket."""
        root, objects = place_objects(bulk, name, target)
        chosen = Selection(self.options.scope.include, self.options.scope.exclude)
        taken = {path: entry for path, entry in objects.items() if chosen.matches(path)}
        rows = self._rows(root, {path: entry.size_bytes for path, entry in taken.items()})
        fetch = partial(self._fetch, bulk, root, taken)
        egress = self._egress(bulk, rows)
        return WorkerCopy(
            self.reach, rows, lambda meter, _: CopyResult(fetch(meter)), egress=egress
        )

    def plan_staged_files(self, source: Path, target: str) -> WorkerCopy:
        """Plan to push once to the context's bucket, from where every worker fetches."""
        bulk = self.buckets.open_bucket(self.buckets.own)
        prefix = staging_prefix(source)
        plan = plan_push(str(source), bulk, prefix, self.buckets.checksums, self.options.scope)
        root, single = single_target(target, source.name) if source.is_file() else (target, None)

        def path_of(key: str) -> str:
            return single or key.removeprefix(prefix)

        def carry_out(meter: Meter, warn: Warn) -> CopyResult:
            if not plan.transfers and plan.refusals:
                raise refused_error(len(plan.refusals))
            if not plan.transfers:
                raise NotFoundError(f"{plan.root} holds no files", hint="check the path")
            failed = _push_to_staging(plan, bulk, meter, warn)
            planned = {
                transfer.key: transfer.size_bytes
                for transfer in plan.transfers
                if transfer.key not in failed
            }
            objects = {
                path_of(entry.key): entry
                for entry in bulk.list(prefix)
                if planned.get(entry.key) == entry.size_bytes
            }
            deliveries = self._fetch(bulk, root, objects, meter)
            uploads = len(plan.transfers)
            return CopyResult(deliveries, uploads - len(objects), uploads)

        rows = self._rows(root, {path_of(one.key): one.size_bytes for one in plan.transfers})
        return WorkerCopy(self.reach, rows, carry_out, plan.refusals, self._egress(bulk, rows))

    def plan_staged_stream(
        self, place: WorkerEndpoint, stdin: Callable[[], BinaryIO]
    ) -> WorkerCopy:
        """Plan to write standard input to the context's bucket, from where every worker fetches."""
        root, name = single_target(place.path, "")
        if not name:
            raise UsageError("a stream needs a name", hint=f"write {place.path}NAME")
        bulk = self.buckets.open_bucket(self.buckets.own)
        digest = hashlib.sha256(f"{place.node}:{place.path}".encode()).hexdigest()[:32]
        key = f"{STAGING_PREFIX}{digest}/{name}"

        def carry_out(meter: Meter, warn: Warn) -> CopyResult:
            objects = {name: push_stream(stdin(), bulk, key, warn)}
            return CopyResult(self._fetch(bulk, root, objects, meter))

        return WorkerCopy(self.reach, (), carry_out)

    def _fetch(
        self, bulk: BulkBucket, root: str, objects: Mapping[str, ObjectInfo], meter: Meter
    ) -> list[Delivery]:
        """Let every worker fetch the objects, or its part of them, below its directory `root`."""
        parts = {
            worker.worker_id: {path: objects[path] for path in self._part_of(worker, objects)}
            for worker in self.reach.workers
        }
        pack = partial(fetch_archive, self.buckets.endpoint, bulk.name, root)
        shared = None if self.options.is_sharded else pack(objects)
        size_bytes = sum(entry.size_bytes for part in parts.values() for entry in part.values())
        meter.expect(sum(map(len, parts.values())), size_bytes)
        return deliver(self.reach, lambda worker_id: shared or pack(parts[worker_id]), meter)

    def _rows(self, root: str, sizes: Mapping[str, int]) -> list[tuple[int, str, int]]:
        return [
            (worker.worker_id, str(PurePosixPath(root, path)), sizes[path])
            for worker in self.reach.workers
            for path in self._part_of(worker, sizes)
        ]

    def _part_of(self, worker: Worker, paths: Iterable[str]) -> Iterable[str]:
        """What a worker gets: everything, or with --shard its part among all of the node."""
        if not self.options.is_sharded:
            return paths
        return shard(paths, worker.worker_id, self.reach.node.worker_count)

    def _egress(self, bulk: BulkBucket, rows: Sequence[tuple[int, str, int]]) -> str | None:
        return egress_warning(bulk, self.reach.node.zone, sum(row[2] for row in rows))


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


def _outgoing_files(
    source: Path, target: str, chosen: Selection
) -> tuple[str, dict[str, PackEntry], list[TransferRefusal]]:
    """The directory of the worker, the files that go below it, and what is refused."""
    try:
        if source.is_file():
            root, name = single_target(target, source.name)
            return root, {name: ssh.outgoing_file(name, source)}, []
        is_directory = source.is_dir()
    except OSError as error:
        raise LocalIOError(f"cannot read {source}: {error.strerror}") from error
    if not is_directory:
        raise NotFoundError(f"there is no file or directory {source}", hint="check the path")
    files: dict[str, PackEntry] = {}
    refusals = []
    for found in walk_files(str(source), chosen):
        if isinstance(found, TransferRefusal):
            refusals.append(TransferRefusal(str(source / found.name), found.why))
            continue
        name, leads_to, _ = found
        try:
            files[name] = ssh.outgoing_file(name, source / leads_to)
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
