"""`tpuctl data` to and from the workers of a node."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TypeVar

from tpuctl.cli.data.outcome import AGAIN, PUT_RIGHT, names_refused
from tpuctl.cli.shell.copy_progress import warn_of_distance, watching
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.worker_access import raise_preempted
from tpuctl.errors import (
    LocalIOError,
    NotFoundError,
    PartialFailureError,
    TransientError,
)
from tpuctl.models.delivery import Delivery, DeliveryState
from tpuctl.models.node import Worker
from tpuctl.models.transfer import Refusal
from tpuctl.operations.stage.plan.endpoints import OnWorkers
from tpuctl.operations.stage.plan.filters import Selection
from tpuctl.operations.stage.plan.walk import files
from tpuctl.operations.stage.transfer.files import Target
from tpuctl.operations.stage.workers import ssh, ssh_pull
from tpuctl.operations.stage.workers.shards import shard
from tpuctl.operations.stage.workers.workers import (
    Placed,
    Reach,
    deliver,
    fetch_orders,
    single_target,
)
from tpuctl.store.gcs.bulk import Bulk

T = TypeVar("T")
VERDICTS = {
    "worker": lambda one: one.worker_id,
    "state": lambda one: one.state,
    "objects_copied": lambda one: one.objects_copied,
    "bytes_copied": lambda one: one.bytes_copied,
    "objects_skipped": lambda one: one.objects_skipped,
    "error": lambda one: one.error,
}
PLANNED = {
    "worker": lambda row: row[0],
    "path": lambda row: row[1],
    "size_bytes": lambda row: row[2],
}


@dataclass(frozen=True, slots=True)
class Options:
    """What the options of a copy said."""

    selection: Selection
    dry_run: bool = False
    is_sharded: bool = False


@dataclass(frozen=True, slots=True)
class Staged:
    """What lies in a bucket for the workers, and the directory of theirs that it goes to."""

    bulk: Bulk
    bucket: str
    root: str
    objects: Sequence[Placed]


def fetch_to_workers(runtime: Runtime, staged: Staged, reached: Reach, options: Options) -> None:
    """Every worker fetches the objects, or its part of them, from the bucket."""
    taken = [one for one in staged.objects if options.selection.takes(one.path)]
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
        runtime.output.items(rows, PLANNED)
        return
    pack = partial(fetch_orders, runtime.context.storage_endpoint, staged.bucket, staged.root)
    shared = None if options.is_sharded else pack(taken)
    size_bytes = sum(one.entry.size_bytes for part in parts.values() for one in part)
    with watching(runtime, sum(map(len, parts.values())), size_bytes) as watch:
        done = deliver(reached, lambda one: shared or pack(parts[one.worker_id]), watch)
    conclude(runtime, reached, done)


def warn_of_egress(
    runtime: Runtime, bulk: Bulk, bucket: str, reached: Reach, sizes: Mapping[str, int],
    options: Options,
) -> None:  # fmt: skip
    """Say what the workers pay for reading the objects of these names and sizes in bytes."""
    names = list(sizes)
    parts = (part_of(reached, worker, names, str, options) for worker in reached.workers)
    size_bytes = sum(sizes[name] for part in parts for name in part)
    warn_of_distance(runtime, bulk, bucket, size_bytes, zone=reached.node.zone)


def part_of(
    reached: Reach, worker: Worker, items: Sequence[T], name: Callable[[T], str], options: Options
) -> list[T]:
    """What a worker gets: everything, or with --shard its part among all workers of the node."""
    if not options.is_sharded:
        return list(items)
    return shard(items, worker.worker_id, reached.node.worker_count, name=name)


def send_to_workers(
    runtime: Runtime, source: Path, place: OnWorkers, reached: Reach, options: Options
) -> None:
    """Files of this machine through SSH."""
    root, found, refusals = _outgoing(source, place.path, options)
    name_refused(runtime, refusals)
    found = part_of(reached, reached.workers[0], found, lambda one: one.path, options)
    size_bytes = sum(one.size_bytes for one in found)
    if options.dry_run:
        number = reached.workers[0].worker_id
        rows = [(number, str(PurePosixPath(root, one.path)), one.size_bytes) for one in found]
        runtime.output.items(rows, PLANNED)
    else:
        with watching(runtime, len(found), size_bytes) as watch:
            done = ssh.send(reached, found, root, watch)
        conclude(runtime, reached, done)
    raise_refused(refusals)


def fetch_from_workers(
    runtime: Runtime,
    place: OnWorkers,
    target: Path,
    reached: Reach,
    options: Options,
    *,
    is_folder: bool,
) -> None:
    """Files of workers to this machine; of several, each below a directory with its ID."""
    remote = ssh.listed(reached, place.path, "sha256")
    plans, rows = {}, []
    for number, found in remote.items():
        is_file = [one.path for one in found] == [""] and not (is_folder or target.is_dir())
        root, name = _local_root(place, target, number, is_file=is_file)
        taken = [one for one in found if not one.path or options.selection.takes(one.path)]
        if options.dry_run:
            rows += [(number, str(root / (one.path or name)), one.size_bytes) for one in taken]
            continue
        opened = Target(str(root))
        plans[number] = (opened, ssh_pull.plan(taken, opened, name))
    if options.dry_run:
        runtime.output.items(rows, PLANNED)
        return
    size_bytes = sum(
        one.remote.size_bytes - one.offset for _, plan in plans.values() for one in plan.to_fetch
    )
    objects = sum(len(planned.to_fetch) for _, planned in plans.values())
    with watching(runtime, objects, size_bytes) as watch:
        done = ssh_pull.fetch(reached, place.path, plans, watch)
    conclude(runtime, reached, done)


def read_from_worker(place: OnWorkers, reached: Reach, write: Callable[[bytes], object]) -> None:
    """One file of one worker to a stream. IntegrityError at its end when it is not that file."""
    (found,) = ssh.listed(reached, place.path, "sha256").values()
    if [one.path for one in found] != [""]:
        raise NotFoundError(f"{place.path} is no file", hint="a directory needs a path to go to")
    ssh_pull.read(reached, place.path, found[0], write)


def conclude(
    runtime: Runtime,
    reached: Reach,
    done: Sequence[Delivery],
) -> None:
    """The verdict of every worker; raises PartialFailureError, PreemptedError, TransientError."""
    runtime.output.items(done, VERDICTS, title=f"workers of {reached.node.name}")
    for one in done:
        for name, why in one.failures:
            runtime.output.warn(f"worker {one.worker_id}: {name}: not copied: {why}")
        if one.error and not one.failures:
            runtime.output.warn(f"worker {one.worker_id}: {one.error}")
    failed = [one for one in done if one.state != DeliveryState.DONE]
    if not failed:
        return
    # Also when none is lost: a slice that is taken away with a warning ends its processes first.
    raise_preempted(runtime, reached.node)
    if len(done) == 1 and done[0].state == DeliveryState.LOST:
        raise TransientError(f"worker {done[0].worker_id}: {done[0].error}", hint=AGAIN)
    names = ", ".join(str(one.worker_id) for one in failed)
    raise PartialFailureError(f"{len(failed)} of {len(done)} workers failed: {names}", hint=AGAIN)


def name_refused(runtime: Runtime, refusals: Sequence[Refusal]) -> None:
    """Name what is not copied."""
    for one in refusals:
        runtime.output.warn(f"{one.name}: not copied: {one.why}")


def raise_refused(refusals: Sequence[Refusal]) -> None:
    """After the rest was copied. Raises PartialFailureError."""
    if refusals:
        raise PartialFailureError(names_refused(len(refusals)), hint=PUT_RIGHT)


def _outgoing(
    source: Path, target: str, options: Options
) -> tuple[str, list[ssh.Outgoing], list[Refusal]]:
    try:
        if source.is_file():
            root, name = single_target(target, source.name)
            return root, [ssh.outgoing(name, source)], []
        is_directory = source.is_dir()
    except OSError as error:
        raise LocalIOError(f"cannot read {source}: {error.strerror}") from error
    if not is_directory:
        raise NotFoundError(f"there is no file or directory {source}", hint="check the path")
    found, refusals = [], []
    for one in files(str(source), options.selection):
        if isinstance(one, Refusal):
            refusals.append(Refusal(str(source / one.name), one.why))
            continue
        name, leads_to, _ = one
        try:
            found.append(ssh.outgoing(name, source / leads_to))
        except OSError as error:
            refusals.append(Refusal(str(source / name), str(error.strerror)))
    return target, found, refusals


def _local_root(place: OnWorkers, target: Path, number: int, *, is_file: bool) -> tuple[Path, str]:
    """The directory that a worker's files go to, and the name of a single one in it."""
    name = PurePosixPath(place.path).name
    if not place.is_one:
        return target / str(number), name
    return (target.parent, target.name) if is_file else (target, name)
