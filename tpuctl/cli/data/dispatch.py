"""`tpuctl data push` and `pull` where one end is no path or no bucket."""

import hashlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from tpuctl.cli.data import worker_transfers
from tpuctl.cli.data.plan_runner import RERUN_HINT
from tpuctl.cli.data.worker_transfers import WorkerCopyOptions
from tpuctl.cli.shell.byte_streams import byte_reader, byte_writer
from tpuctl.cli.shell.copy_progress import show_copy
from tpuctl.cli.shell.progress_display import show_byte_bar
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.worker_access import reach_workers
from tpuctl.errors import NotFoundError, PartialFailureError, TpuctlError, UsageError
from tpuctl.models.transfer import (
    TransferFinished,
    TransferNotice,
    TransferPlan,
    TransferProgress,
    TransferScope,
)
from tpuctl.operations.remote.fanout import WorkerReach
from tpuctl.operations.stage.plan.endpoints import (
    BucketEndpoint,
    DiskEndpoint,
    Endpoint,
    StreamEndpoint,
    WorkerEndpoint,
    check_pull,
    check_push,
    parse,
)
from tpuctl.operations.stage.plan.filters import Selection, selection
from tpuctl.operations.stage.plan.push_plan import plan_push
from tpuctl.operations.stage.transfer.leftovers import Leftovers
from tpuctl.operations.stage.transfer.push_files import push as send
from tpuctl.operations.stage.transfer.streams import pull_stream, push_stream, stored_object
from tpuctl.operations.stage.workers.staging import (
    STAGING_PREFIX,
    PlacedObject,
    place_objects,
    single_target,
    staging_prefix,
)
from tpuctl.store.gcs.bulk import BulkBucket, ObjectInfo

STREAM_COLUMNS = {
    "objects_sent": lambda _: 1,
    "bytes_sent": lambda one: one.size_bytes,
    "objects_skipped": lambda _: 0,
}


@dataclass(frozen=True, slots=True)
class CopyRequest:
    """What the command line asks of a copy besides its two ends."""

    scope: TransferScope
    dry_run: bool
    is_sharded: bool = False

    @property
    def options(self) -> WorkerCopyOptions:
        """For workers."""
        chosen = Selection(self.scope.include, self.scope.exclude)
        return WorkerCopyOptions(chosen, self.dry_run, self.is_sharded)


def push(runtime: Runtime, source: str, target: str, asked: CopyRequest) -> None:
    """Do a push that is not from a path to a bucket. Raises UsageError for what makes no sense."""
    ends = parse(source), parse(target)
    check_push(*ends)
    if not isinstance(ends[1], WorkerEndpoint):
        _refuse(asked.is_sharded, "--shard", "it gives each worker of a slice its part")
    match ends:
        case (StreamEndpoint(), BucketEndpoint(bucket, name)):
            _refuse_stream_options(asked)
            if not name or name.endswith("/"):
                raise UsageError("a stream needs a name", hint="write gs://BUCKET/NAME")
            found = _stream_in(runtime, runtime.bulk(bucket), name)
            runtime.output.item(found, STREAM_COLUMNS)
        case (_, WorkerEndpoint() as place):
            _refuse(asked.scope.delete, "--delete", "what is only on a worker is not removed")
            runtime.on_interrupt.append(
                "what the workers have stays; run the same command again to copy the rest"
            )
            _to_workers(runtime, ends[0], place, asked)


def pull(runtime: Runtime, source: str, target: str, asked: CopyRequest) -> None:
    """Do a pull that is not from a bucket to a path. Raises UsageError for what makes no sense."""
    ends = parse(source), parse(target)
    check_pull(*ends)
    match ends:
        case (BucketEndpoint(bucket, name), StreamEndpoint()):
            _refuse_stream_options(asked)
            _stream_out(runtime, runtime.bulk(bucket), name)
        case (WorkerEndpoint() as place, StreamEndpoint()):
            _refuse_stream_options(asked)
            reached = reach_workers(runtime, place)
            worker_transfers.read_from_worker(place, reached, byte_writer(runtime.out))
        case (WorkerEndpoint() as place, DiskEndpoint(path)):
            _refuse(asked.scope.delete, "--delete", "give it with a bucket")
            runtime.on_interrupt.append(
                "what is here stays; run the same command again to copy the rest"
            )
            reached = reach_workers(runtime, place)
            # A trailing slash is lost in a Path, and says that the target is a directory.
            is_folder = target.endswith("/")
            worker_transfers.fetch_from_workers(
                runtime, place, path, reached, asked.options, is_folder=is_folder
            )


def _to_workers(
    runtime: Runtime, source: Endpoint, place: WorkerEndpoint, asked: CopyRequest
) -> None:
    reached = reach_workers(runtime, place)
    match source:
        case DiskEndpoint(path) if place.is_one:
            chosen = selection(str(path), asked.scope.include, asked.scope.exclude)
            options = WorkerCopyOptions(chosen, asked.dry_run, asked.is_sharded)
            worker_transfers.send_to_workers(runtime, path, place, reached, options)
        case DiskEndpoint(path):
            _stage(runtime, path, place, reached, asked)
        case BucketEndpoint(bucket, name):
            bulk = runtime.bulk(bucket)
            root, objects = place_objects(bulk, name, place.path)
            taken = [one for one in objects if asked.options.selection.matches(one.path)]
            sizes = {one.path: one.entry.size_bytes for one in taken}
            worker_transfers.warn_of_egress(runtime, bulk, bucket, reached, sizes, asked.options)
            staged = worker_transfers.StagedSet(bulk, bucket, root, objects)
            worker_transfers.fetch_to_workers(runtime, staged, reached, asked.options)
        case StreamEndpoint():
            _refuse_stream_options(asked)
            _refuse(asked.is_sharded, "--shard", "a stream is one object")
            bulk = runtime.bulk(runtime.context.bucket)
            root, name = single_target(place.path, "")
            if not name:
                raise UsageError("a stream needs a name", hint=f"write {place.path}NAME")
            digest = hashlib.sha256(f"{place.node}:{place.path}".encode()).hexdigest()[:32]
            key = f"{STAGING_PREFIX}{digest}/{name}"
            objects = [PlacedObject(_stream_in(runtime, bulk, key), name)]
            staged = worker_transfers.StagedSet(bulk, runtime.context.bucket, root, objects)
            worker_transfers.fetch_to_workers(runtime, staged, reached, asked.options)


def _stage(
    runtime: Runtime, source: Path, place: WorkerEndpoint, reached: WorkerReach, asked: CopyRequest
) -> None:
    """Push once to the context's bucket, and let every worker fetch it from there."""
    bucket = runtime.context.bucket
    bulk = runtime.bulk(bucket)
    prefix = staging_prefix(source)
    plan = plan_push(str(source), bulk, prefix, runtime.checksums, asked.scope)
    root, single = place.path, None
    if source.is_file():
        root, single = single_target(place.path, source.name)
    place_of = partial(_path_below, prefix=prefix, single=single)
    worker_transfers.warn_of_refused(runtime, plan.refusals)
    options = WorkerCopyOptions(Selection(), is_sharded=asked.is_sharded)
    sizes = {one.key: one.size_bytes for one in plan.transfers}
    worker_transfers.warn_of_egress(runtime, bulk, bucket, reached, sizes, options)
    if asked.dry_run:
        rows = [
            (one.worker_id, str(PurePosixPath(root, place_of(each.key))), each.size_bytes)
            for one in reached.workers
            for each in worker_transfers.part_of(
                reached, one, plan.transfers, lambda each: each.key, asked.options
            )
        ]
        runtime.output.items(rows, worker_transfers.PLANNED_COLUMNS)
        worker_transfers.raise_refused(plan.refusals)
        return
    failed = _push_to_staging(runtime, plan, bulk)
    planned = {one.key: one.size_bytes for one in plan.transfers if one.key not in failed}
    objects = [
        PlacedObject(one, place_of(one.key))
        for one in bulk.list(prefix)
        if planned.get(one.key) == one.size_bytes
    ]
    staged = worker_transfers.StagedSet(bulk, bucket, root, objects)
    worker_transfers.fetch_to_workers(runtime, staged, reached, options)
    worker_transfers.raise_refused(plan.refusals)
    if failed or len(objects) < len(planned):
        raise PartialFailureError(
            f"{len(plan.transfers) - len(objects)} of {len(plan.transfers)} objects failed",
            hint=RERUN_HINT,
        )


def _path_below(key: str, *, prefix: str, single: str | None) -> str:
    return single or key.removeprefix(prefix)


def _push_to_staging(runtime: Runtime, plan: TransferPlan, bulk: BulkBucket) -> set[str]:
    """Push what the plan says; the keys that failed. Raises the error when all did."""
    errors: dict[str, TpuctlError] = {}
    with show_copy(runtime, len(plan.to_send), plan.size_bytes) as watch:
        for event in send(plan, bulk):
            match event:
                case TransferProgress(size_bytes):
                    watch.advance(size_bytes)
                case TransferNotice(text):
                    runtime.output.warn(text)
                case TransferFinished(subject, error):
                    watch.finished()
                    if error is not None:
                        errors[subject.key] = error
                        runtime.output.warn(f"{subject.name}: {error}")
    if errors and len(errors) == len(plan.transfers):
        raise next(iter(errors.values()))
    if not plan.transfers:
        worker_transfers.raise_refused(plan.refusals)
        raise NotFoundError(f"{plan.root} holds no files", hint="check the path")
    return set(errors)


def _stream_in(runtime: Runtime, bulk: BulkBucket, key: str) -> ObjectInfo:
    source = byte_reader(runtime.stdin)
    leftovers = Leftovers(bulk)
    found = push_stream(source, bulk, key, leftovers, lambda _count: None)
    for notice in leftovers.notices():
        runtime.output.warn(notice.text)
    return found


def _stream_out(runtime: Runtime, bulk: BulkBucket, key: str) -> None:
    entry = stored_object(bulk, key)
    with show_byte_bar(runtime, entry.size_bytes) as advance:
        pull_stream(bulk, entry, byte_writer(runtime.out), advance)


def _refuse_stream_options(asked: CopyRequest) -> None:
    """A stream is one object, copied anew each time: no option says anything about it."""
    for is_given, option in (
        (asked.scope.delete, "--delete"),
        (bool(asked.scope.include), "--include"),
        (bool(asked.scope.exclude), "--exclude"),
        (asked.dry_run, "--dry-run"),
    ):
        _refuse(is_given, option, "a stream is one object")


def _refuse(is_given: bool, option: str, why: str) -> None:
    if is_given:
        raise UsageError(f"{option} has no meaning here: {why}", hint=f"leave {option} out")
