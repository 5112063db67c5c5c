"""`tpuctl data push` and `pull` where one end is no path or no bucket."""

import hashlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from tpuctl.cli.data import workers
from tpuctl.cli.data.outcome import AGAIN
from tpuctl.cli.data.workers import Options
from tpuctl.cli.shell.byte_streams import bytes_from, bytes_to
from tpuctl.cli.shell.copy_progress import watching
from tpuctl.cli.shell.progress import byte_bar
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.worker_access import reach
from tpuctl.errors import NotFoundError, PartialFailureError, TpuctlError, UsageError
from tpuctl.models.transfer import Finished, Notice, Plan, Progress, Scope
from tpuctl.operations.stage.plan.endpoints import (
    Endpoint,
    InBucket,
    OnDisk,
    OnWorkers,
    Stream,
    check_pull,
    check_push,
    parse,
)
from tpuctl.operations.stage.plan.filters import Selection, selection
from tpuctl.operations.stage.plan.plan import plan_push
from tpuctl.operations.stage.transfer.leftovers import Leftovers
from tpuctl.operations.stage.transfer.push import push as send
from tpuctl.operations.stage.transfer.streams import pull_stream, push_stream, stored
from tpuctl.operations.stage.workers.workers import (
    STAGING,
    Placed,
    Reach,
    placed,
    single_target,
    staging_prefix,
)
from tpuctl.store.gcs.bulk import Bulk, Listed

STREAMED = {
    "objects_sent": lambda _: 1,
    "bytes_sent": lambda one: one.size_bytes,
    "objects_skipped": lambda _: 0,
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks of a copy besides its two ends."""

    scope: Scope
    dry_run: bool
    is_sharded: bool = False

    @property
    def options(self) -> Options:
        """For workers."""
        chosen = Selection(self.scope.include, self.scope.exclude)
        return Options(chosen, self.dry_run, self.is_sharded)


def push(runtime: Runtime, source: str, target: str, asked: Asked) -> None:
    """Do a push that is not from a path to a bucket. Raises UsageError for what makes no sense."""
    ends = parse(source), parse(target)
    check_push(*ends)
    if not isinstance(ends[1], OnWorkers):
        _refuse(asked.is_sharded, "--shard", "it gives each worker of a slice its part")
    match ends:
        case (Stream(), InBucket(bucket, name)):
            _plain(asked)
            if not name or name.endswith("/"):
                raise UsageError("a stream needs a name", hint="write gs://BUCKET/NAME")
            found = _stream_in(runtime, runtime.bulk(bucket), name)
            runtime.output.item(found, STREAMED)
        case (_, OnWorkers() as place):
            _refuse(asked.scope.delete, "--delete", "what is only on a worker is not removed")
            runtime.goes_on.append(
                "what the workers have stays; run the same command again to copy the rest"
            )
            _to_workers(runtime, ends[0], place, asked)


def pull(runtime: Runtime, source: str, target: str, asked: Asked) -> None:
    """Do a pull that is not from a bucket to a path. Raises UsageError for what makes no sense."""
    ends = parse(source), parse(target)
    check_pull(*ends)
    match ends:
        case (InBucket(bucket, name), Stream()):
            _plain(asked)
            _stream_out(runtime, runtime.bulk(bucket), name)
        case (OnWorkers() as place, Stream()):
            _plain(asked)
            reached = reach(runtime, place)
            workers.read_from_worker(place, reached, bytes_to(runtime.out))
        case (OnWorkers() as place, OnDisk(path)):
            _refuse(asked.scope.delete, "--delete", "give it with a bucket")
            runtime.goes_on.append(
                "what is here stays; run the same command again to copy the rest"
            )
            reached = reach(runtime, place)
            # A trailing slash is lost in a Path, and says that the target is a directory.
            is_folder = target.endswith("/")
            workers.fetch_from_workers(
                runtime, place, path, reached, asked.options, is_folder=is_folder
            )


def _to_workers(runtime: Runtime, source: Endpoint, place: OnWorkers, asked: Asked) -> None:
    reached = reach(runtime, place)
    match source:
        case OnDisk(path) if place.is_one:
            chosen = selection(str(path), asked.scope.include, asked.scope.exclude)
            options = Options(chosen, asked.dry_run, asked.is_sharded)
            workers.send_to_workers(runtime, path, place, reached, options)
        case OnDisk(path):
            _stage(runtime, path, place, reached, asked)
        case InBucket(bucket, name):
            bulk = runtime.bulk(bucket)
            root, objects = placed(bulk, name, place.path)
            taken = [one for one in objects if asked.options.selection.takes(one.path)]
            sizes = {one.path: one.entry.size_bytes for one in taken}
            workers.warn_of_egress(runtime, bulk, bucket, reached, sizes, asked.options)
            staged = workers.Staged(bulk, bucket, root, objects)
            workers.fetch_to_workers(runtime, staged, reached, asked.options)
        case Stream():
            _plain(asked)
            _refuse(asked.is_sharded, "--shard", "a stream is one object")
            bulk = runtime.bulk(runtime.context.bucket)
            root, name = single_target(place.path, "")
            if not name:
                raise UsageError("a stream needs a name", hint=f"write {place.path}NAME")
            digest = hashlib.sha256(f"{place.node}:{place.path}".encode()).hexdigest()[:32]
            key = f"{STAGING}{digest}/{name}"
            objects = [Placed(_stream_in(runtime, bulk, key), name)]
            staged = workers.Staged(bulk, runtime.context.bucket, root, objects)
            workers.fetch_to_workers(runtime, staged, reached, asked.options)


def _stage(runtime: Runtime, source: Path, place: OnWorkers, reached: Reach, asked: Asked) -> None:
    """Push once to the context's bucket, and let every worker fetch it from there."""
    bucket = runtime.context.bucket
    bulk = runtime.bulk(bucket)
    prefix = staging_prefix(source)
    plan = plan_push(str(source), bulk, prefix, runtime.checksums, asked.scope)
    root, single = place.path, None
    if source.is_file():
        root, single = single_target(place.path, source.name)
    place_of = partial(_path_below, prefix=prefix, single=single)
    workers.name_refused(runtime, plan.refusals)
    options = Options(Selection(), is_sharded=asked.is_sharded)
    sizes = {one.key: one.size_bytes for one in plan.transfers}
    workers.warn_of_egress(runtime, bulk, bucket, reached, sizes, options)
    if asked.dry_run:
        rows = [
            (one.worker_id, str(PurePosixPath(root, place_of(each.key))), each.size_bytes)
            for one in reached.workers
            for each in workers.part_of(
                reached, one, plan.transfers, lambda each: each.key, asked.options
            )
        ]
        runtime.output.items(rows, workers.PLANNED)
        workers.raise_refused(plan.refusals)
        return
    failed = _sent(runtime, plan, bulk)
    planned = {one.key: one.size_bytes for one in plan.transfers if one.key not in failed}
    objects = [
        Placed(one, place_of(one.key))
        for one in bulk.list(prefix)
        if planned.get(one.key) == one.size_bytes
    ]
    staged = workers.Staged(bulk, bucket, root, objects)
    workers.fetch_to_workers(runtime, staged, reached, options)
    workers.raise_refused(plan.refusals)
    if failed or len(objects) < len(planned):
        raise PartialFailureError(
            f"{len(plan.transfers) - len(objects)} of {len(plan.transfers)} objects failed",
            hint=AGAIN,
        )


def _path_below(key: str, *, prefix: str, single: str | None) -> str:
    return single or key.removeprefix(prefix)


def _sent(runtime: Runtime, plan: Plan, bulk: Bulk) -> set[str]:
    """Push what the plan says; the keys that failed. Raises the error when all did."""
    errors: dict[str, TpuctlError] = {}
    with watching(runtime, len(plan.to_send), plan.size_bytes) as watch:
        for event in send(plan, bulk):
            match event:
                case Progress(size_bytes):
                    watch.advance(size_bytes)
                case Notice(text):
                    runtime.output.warn(text)
                case Finished(subject, error):
                    watch.finished()
                    if error is not None:
                        errors[subject.key] = error
                        runtime.output.warn(f"{subject.name}: {error}")
    if errors and len(errors) == len(plan.transfers):
        raise next(iter(errors.values()))
    if not plan.transfers:
        workers.raise_refused(plan.refusals)
        raise NotFoundError(f"{plan.root} holds no files", hint="check the path")
    return set(errors)


def _stream_in(runtime: Runtime, bulk: Bulk, key: str) -> Listed:
    source = bytes_from(runtime.stdin)
    leftovers = Leftovers(bulk)
    found = push_stream(source, bulk, key, leftovers, lambda _count: None)
    for notice in leftovers.notices():
        runtime.output.warn(notice.text)
    return found


def _stream_out(runtime: Runtime, bulk: Bulk, key: str) -> None:
    entry = stored(bulk, key)
    with byte_bar(runtime, entry.size_bytes) as advance:
        pull_stream(bulk, entry, bytes_to(runtime.out), advance)


def _plain(asked: Asked) -> None:
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
