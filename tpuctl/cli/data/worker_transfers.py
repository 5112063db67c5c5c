"""`tpuctl data` to and from the workers of a node."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from tpuctl.cli.data.plan_runner import FIX_NAMES_HINT, RERUN_HINT, refused_text
from tpuctl.cli.shell.copy_progress import show_copy, show_growing_copy, warn_of_egress_charge
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.worker_access import raise_if_preempted
from tpuctl.errors import (
    LocalIOError,
    NotFoundError,
    PartialFailureError,
    TransientError,
)
from tpuctl.models.delivery import Delivery, DeliveryState
from tpuctl.models.node import Worker
from tpuctl.models.transfer import TransferRefusal
from tpuctl.operations.remote.fanout import WorkerReach
from tpuctl.operations.stage.plan.endpoints import WorkerEndpoint
from tpuctl.operations.stage.plan.filters import Selection
from tpuctl.operations.stage.plan.walk import walk_files
from tpuctl.operations.stage.workers import ssh
from tpuctl.operations.stage.workers.staging import (
    PlacedObject,
    deliver,
    fetch_archive,
    shard,
    single_target,
)
from tpuctl.store.gcs.bulk import BulkBucket

T = TypeVar("T")
DELIVERY_COLUMNS = {
    "worker": lambda one: one.worker_id,
    "state": lambda one: one.state,
    "objects_copied": lambda one: one.objects_copied,
    "bytes_copied": lambda one: one.bytes_copied,
    "objects_skipped": lambda one: one.objects_skipped,
    "error": lambda one: one.error,
}
PLANNED_COLUMNS = {
    "worker": lambda row: row[0],
    "path": lambda row: row[1],
    "size_bytes": lambda row: row[2],
}


@dataclass(frozen=True, slots=True)
class WorkerCopyOptions:
    """What the options of a copy said."""

    selection: Selection
    dry_run: bool = False
    is_sharded: bool = False


@dataclass(frozen=True, slots=True)
class StagedSet:
    """What lies in a bucket for the workers, and the directory of theirs that it goes to."""

    bulk: BulkBucket
    bucket: str
    root: str
    objects: Sequence[PlacedObject]


def fetch_to_workers(
    runtime: Runtime, staged: StagedSet, reached: WorkerReach, options: WorkerCopyOptions
) -> None:
    """Every worker fetches the objects, or its part of them, from the bucket."""
    taken = [one for one in staged.objects if options.selection.matches(one.path)]
    parts = {
        worker.worker_id: part_of(reached, worker, taken, lambda one: one.path, options)
        for worker in reached.workers
    }
    if options.dry_run:
        rows = [
            (number, str(PurePosixPath(staged.root, one.path)), one.entry.size_bytes)
            for number, part in parts.items()
            for one in part
        ]
        runtime.output.items(rows, PLANNED_COLUMNS)
        return
    pack = partial(fetch_archive, runtime.context.storage_endpoint, staged.bucket, staged.root)
    shared = None if options.is_sharded else pack(taken)
    size_bytes = sum(one.entry.size_bytes for part in parts.values() for one in part)
    with show_copy(runtime, sum(map(len, parts.values())), size_bytes) as watch:
        done = deliver(reached, lambda one: shared or pack(parts[one.worker_id]), watch)
    report_deliveries(runtime, reached, done)


def warn_of_egress(
    runtime: Runtime, bulk: BulkBucket, bucket: str, reached: WorkerReach, sizes: Mapping[str, int],
    options: WorkerCopyOptions,
) -> None:  # fmt: skip
    """Say what the workers pay for reading the objects of these names and sizes in bytes."""
    names = list(sizes)
    parts = (part_of(reached, worker, names, str, options) for worker in reached.workers)
    size_bytes = sum(sizes[name] for part in parts for name in part)
    warn_of_egress_charge(runtime, bulk, bucket, size_bytes, zone=reached.node.zone)


def part_of(
    reached: WorkerReach,
    worker: Worker,
    items: Sequence[T],
    name: Callable[[T], str],
    options: WorkerCopyOptions,
) -> list[T]:
    """What a worker gets: everything, or with --shard its part among all workers of the node."""
    if not options.is_sharded:
        return list(items)
    return shard(items, worker.worker_id, reached.node.worker_count, name=name)


def send_to_workers(
    runtime: Runtime,
    source: Path,
    place: WorkerEndpoint,
    reached: WorkerReach,
    options: WorkerCopyOptions,
) -> None:
    """Files of this machine through SSH."""
    root, found, refusals = _outgoing(source, place.path, options)
    warn_of_refused(runtime, refusals)
    found = part_of(reached, reached.workers[0], found, lambda one: one.path, options)
    if options.dry_run:
        number = reached.workers[0].worker_id
        rows = [(number, str(PurePosixPath(root, one.path)), one.size_bytes) for one in found]
        runtime.output.items(rows, PLANNED_COLUMNS)
    else:
        with show_growing_copy(runtime) as watch:
            done = ssh.send_files(reached, found, root, watch)
        report_deliveries(runtime, reached, done)
    raise_refused(refusals)


def fetch_from_workers(
    runtime: Runtime,
    place: WorkerEndpoint,
    target: Path,
    reached: WorkerReach,
    options: WorkerCopyOptions,
    *,
    is_folder: bool,
) -> None:
    """Files of workers to this machine; of several, each below a directory with its ID."""
    remote = ssh.list_files(reached, place.path, "sha256")
    pulls, rows = {}, []
    for number, found in remote.items():
        is_file = [one.path for one in found] == [""] and not (is_folder or target.is_dir())
        root, name = _local_root(place, target, number, is_file=is_file)
        taken = [one for one in found if not one.path or options.selection.matches(one.path)]
        if options.dry_run:
            rows += [(number, str(root / (one.path or name)), one.size_bytes) for one in taken]
            continue
        files = {one.path or name: one for one in taken}
        pulls[number] = ssh.WorkerPull(str(root.absolute()), files)
    if options.dry_run:
        runtime.output.items(rows, PLANNED_COLUMNS)
        return
    with show_growing_copy(runtime) as watch:
        done = ssh.fetch_files(reached, place.path, pulls, watch)
    report_deliveries(runtime, reached, done)


def read_from_worker(
    place: WorkerEndpoint, reached: WorkerReach, write: Callable[[bytes], object]
) -> None:
    """One file of one worker to a stream. IntegrityError at its end when it is not that file."""
    (found,) = ssh.list_files(reached, place.path, "sha256").values()
    if [one.path for one in found] != [""]:
        raise NotFoundError(f"{place.path} is no file", hint="a directory needs a path to go to")
    ssh.read_file(reached, place.path, found[0], write)


def report_deliveries(
    runtime: Runtime,
    reached: WorkerReach,
    done: Sequence[Delivery],
) -> None:
    """The verdict of every worker; raises PartialFailureError, PreemptedError, TransientError."""
    runtime.output.items(done, DELIVERY_COLUMNS, title=f"workers of {reached.node.name}")
    for one in done:
        for failure in one.failures:
            text = f"{failure.path}: not copied: {failure.why}"
            runtime.output.warn(f"worker {one.worker_id}: {text}")
        if one.error and not one.failures:
            runtime.output.warn(f"worker {one.worker_id}: {one.error}")
    failed = [one for one in done if one.state != DeliveryState.DONE]
    if not failed:
        return
    # Also when none is lost: a slice that is taken away with a warning ends its processes first.
    raise_if_preempted(runtime, reached.node)
    if len(done) == 1 and done[0].state == DeliveryState.LOST:
        raise TransientError(f"worker {done[0].worker_id}: {done[0].error}", hint=RERUN_HINT)
    names = ", ".join(str(one.worker_id) for one in failed)
    raise PartialFailureError(
        f"{len(failed)} of {len(done)} workers failed: {names}", hint=RERUN_HINT
    )


def warn_of_refused(runtime: Runtime, refusals: Sequence[TransferRefusal]) -> None:
    """Name what is not copied."""
    for one in refusals:
        runtime.output.warn(f"{one.name}: not copied: {one.why}")


def raise_refused(refusals: Sequence[TransferRefusal]) -> None:
    """After the rest was copied. Raises PartialFailureError."""
    if refusals:
        raise PartialFailureError(refused_text(len(refusals)), hint=FIX_NAMES_HINT)


def _outgoing(
    source: Path, target: str, options: WorkerCopyOptions
) -> tuple[str, list[Any], list[TransferRefusal]]:
    try:
        if source.is_file():
            root, name = single_target(target, source.name)
            return root, [ssh.outgoing_file(name, source)], []
        is_directory = source.is_dir()
    except OSError as error:
        raise LocalIOError(f"cannot read {source}: {error.strerror}") from error
    if not is_directory:
        raise NotFoundError(f"there is no file or directory {source}", hint="check the path")
    found, refusals = [], []
    for one in walk_files(str(source), options.selection):
        if isinstance(one, TransferRefusal):
            refusals.append(TransferRefusal(str(source / one.name), one.why))
            continue
        name, leads_to, _ = one
        try:
            found.append(ssh.outgoing_file(name, source / leads_to))
        except OSError as error:
            refusals.append(TransferRefusal(str(source / name), str(error.strerror)))
    return target, found, refusals


def _local_root(
    place: WorkerEndpoint, target: Path, number: int, *, is_file: bool
) -> tuple[Path, str]:
    """The directory that a worker's files go to, and the name of a single one in it."""
    name = PurePosixPath(place.path).name
    if not place.is_one:
        return target / str(number), name
    return (target.parent, target.name) if is_file else (target, name)
