"""`tpuctl data push` and `pull` where one end is not a path or no bucket."""

from collections.abc import Sequence
from typing import BinaryIO, cast

from tpuctl.byte_size import count_text
from tpuctl.cli.data.plan_runner import RERUN_HINT
from tpuctl.cli.shell.byte_streams import CountingReader, byte_reader, byte_writer
from tpuctl.cli.shell.copy_progress import show_copy
from tpuctl.cli.shell.progress_display import show_byte_bar
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.values import Size, attributes, entries, sizes
from tpuctl.cli.shell.worker_access import raise_if_preempted, reach_workers
from tpuctl.errors import PartialFailureError, TransientError, UsageError
from tpuctl.models.delivery import Delivery, DeliveryState
from tpuctl.models.transfer import CopyOptions
from tpuctl.operations.remote.fanout import WorkerReach
from tpuctl.operations.stage.plan.endpoints import (
    BucketEndpoint,
    StreamEndpoint,
    WorkerEndpoint,
    check_options,
    check_pull,
    check_push,
    parse,
)
from tpuctl.operations.stage.plan.names import refused_error
from tpuctl.operations.stage.transfer.streams import pull_stream, push_stream, stored_object
from tpuctl.operations.stage.workers import copies
from tpuctl.operations.stage.workers.staging import Buckets

DELIVERY_COLUMNS = {
    **attributes(worker="worker_id", state="state"),
    **attributes("objects_copied"),
    **sizes("bytes_copied"),
    **attributes("objects_skipped", "error"),
}
PLANNED_COLUMNS = {**entries("worker", "path"), "size_bytes": lambda row: Size(row[2])}


def push(runtime: Runtime, source: str, target: str, options: CopyOptions) -> None:
    """Do a push that is not from a path to a bucket. Raises UsageError for what is not valid."""
    ends = parse(source), parse(target)
    check_push(*ends)
    check_options(*ends, options)
    match ends:
        case (StreamEndpoint(), BucketEndpoint(bucket, name)):
            if not name or name.endswith("/"):
                raise UsageError("a stream needs a name", hint="write gs://BUCKET/NAME")
            with show_byte_bar(runtime, None) as advance:
                stdin = cast("BinaryIO", CountingReader(byte_reader(runtime.stdin), advance))
                entry = push_stream(stdin, runtime.bulk(bucket), name, runtime.output.warn)
            size_bytes = entry.size_bytes
            runtime.output.fields(
                {"objects_sent": 1, "bytes_sent": Size(size_bytes), "objects_skipped": 0}
            )
        case (_, WorkerEndpoint() as place):
            runtime.on_interrupt.append(
                "files on the workers stay; run the same command again to copy the rest"
            )
            reach = reach_workers(runtime, place)
            copy = copies.plan_to_workers(
                buckets_of(runtime), reach, ends[0], place, options,
                lambda: byte_reader(runtime.stdin),
            )  # fmt: skip
            _carry_out(runtime, copy, dry_run=options.dry_run)


def pull(runtime: Runtime, source: str, target: str, options: CopyOptions) -> None:
    """Do a pull that is not from a bucket to a path. Raises UsageError for what is not valid."""
    ends = parse(source), parse(target)
    check_pull(*ends)
    check_options(*ends, options)
    write = byte_writer(runtime.out)
    match ends:
        case (BucketEndpoint(bucket, name), _):
            bulk = runtime.bulk(bucket)
            entry = stored_object(bulk, name)
            with show_byte_bar(runtime, entry.size_bytes) as advance:
                pull_stream(bulk, entry, write, advance)
        case (WorkerEndpoint() as place, StreamEndpoint()):
            copies.read_from_worker(reach_workers(runtime, place), place, write)
        case (WorkerEndpoint() as place, _):
            runtime.on_interrupt.append(
                "files on this machine stay; run the same command again to copy the rest"
            )
            reach = reach_workers(runtime, place)
            copy = copies.plan_from_workers(reach, place, target, options)
            _carry_out(runtime, copy, dry_run=options.dry_run)


def buckets_of(runtime: Runtime) -> Buckets:
    """The buckets of the context; none is opened yet."""
    context = runtime.context
    return Buckets(runtime.bulk, context.bucket, context.worker_storage_endpoint, runtime.checksums)


def _carry_out(runtime: Runtime, copy: copies.WorkerCopy, *, dry_run: bool) -> None:
    """Show a planned copy, or carry it out. Raises PartialFailureError after the rest is there."""
    warn = runtime.output.warn
    for refusal in copy.refusals:
        warn(f"{refusal.name}: not copied: {refusal.why}")
    if copy.egress:
        warn(copy.egress)
    result = copies.CopyResult(())
    if dry_run:
        runtime.output.items(copy.rows, PLANNED_COLUMNS)
    else:
        with show_copy(runtime) as meter:
            result = copy.carry_out(meter, warn)
        _report_deliveries(runtime, copy.reach, result.deliveries)
    if copy.refusals:
        raise refused_error(len(copy.refusals))
    if result.failed_uploads:
        text = f"{result.failed_uploads} of {count_text(result.uploads, 'object')} failed"
        raise PartialFailureError(text, hint=RERUN_HINT)


def _report_deliveries(runtime: Runtime, reach: WorkerReach, done: Sequence[Delivery]) -> None:
    """Show the result on every worker. PartialFailureError, PreemptedError, TransientError."""
    runtime.output.items(done, DELIVERY_COLUMNS, title=f"workers of {reach.node.name}")
    for delivery in done:
        for failure in delivery.failures:
            text = f"{failure.path}: not copied: {failure.why}"
            runtime.output.warn(f"worker {delivery.worker_id}: {text}")
        if delivery.error and not delivery.failures:
            runtime.output.warn(f"worker {delivery.worker_id}: {delivery.error}")
    failed = [one for one in done if one.state != DeliveryState.DONE]
    if not failed:
        return
    # Also when none is lost: a slice that is taken away with a warning ends its processes first.
    raise_if_preempted(runtime, reach.node)
    if len(done) == 1 and done[0].state == DeliveryState.LOST:
        raise TransientError(f"worker {done[0].worker_id}: {done[0].error}", hint=RERUN_HINT)
    names = ", ".join(str(one.worker_id) for one in failed)
    raise PartialFailureError(
        f"{len(failed)} of {len(done)} workers failed: {names}", hint=RERUN_HINT
    )
