"""`tpuctl node cp`: files and directories to and from workers."""

import errno
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from tpuctl.cli.shell.copy_progress import show_copy
from tpuctl.cli.shell.options import completed_by
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.values import attributes, printable, sizes
from tpuctl.cli.shell.worker_access import CHECK_WORKERS_HINT, raise_if_preempted, reach_workers
from tpuctl.errors import (
    LocalIOError,
    NotFoundError,
    PartialFailureError,
    TpuctlError,
    TransientError,
    UsageError,
)
from tpuctl.models.delivery import Delivery
from tpuctl.models.worker_numbers import format_ranges
from tpuctl.operations.remote.fanout import WorkerReach
from tpuctl.operations.stage.plan.endpoints import ALL, WorkerEndpoint
from tpuctl.operations.workers.cp_arguments import parse_arguments

COLUMNS = {
    **attributes(worker="worker_id", state="state"),
    **attributes(files_copied="objects_copied"),
    **sizes("bytes_copied"),
    "files_failed": lambda delivery: len(delivery.failures),
}
DOCUMENT = {**COLUMNS, **attributes("error")}
"""Beside a table the warnings say why."""
RERUN_HINT = f"run the same command again; or {CHECK_WORKERS_HINT}"
FIX_CAUSE_HINT = "put right what is said here, then run the same command again"
NAMED_AT_MOST = 10
_REFUSED = LocalIOError, "see that there is room and permission, then run it again"
_KINDS: dict[int, tuple[type[TpuctlError], str]] = {
    errno.ENOENT: (NotFoundError, "check the path"),
    errno.EISDIR: (UsageError, "repeat it with -r"),
}


def copy(
    runtime: Runtime,
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="SRC... DST",
            help="NAME:PATH on one side, local on the other.",
            autocompletion=completed_by("copy path"),
        ),
    ],
    worker: Annotated[
        str | None,
        typer.Option(
            metavar="IDS",
            help="all, 0, 1,4,6 or 1-3; default: to all, from 0.",
            autocompletion=completed_by("worker"),
        ),
    ] = None,
    recursive: Annotated[
        bool, typer.Option("--recurse", "-r", help="Directories with all that is in them.")
    ] = False,
) -> None:
    """Copy files to the workers of a node, or from them.

    A path of a worker begins at its HOME and may be a pattern. As with cp, a copy goes into DST
    where that is a directory, else it is called DST; from several workers it goes into DST/0,
    DST/1 and so on. No file shows under its name before it is whole.
    """
    from tpuctl.operations.workers import copying  # what ships a copy takes its time to load

    arguments = parse_arguments(paths)
    entries = copying.list_entries(arguments, recursive=recursive)
    default = ALL if arguments.is_upload else "0"
    place = WorkerEndpoint(arguments.node, default if worker is None else worker, arguments.target)
    reach = reach_workers(runtime, place)
    runtime.on_interrupt.append("files already copied stay; none is there in part")
    with show_copy(runtime) as meter:
        if arguments.is_upload:
            deliveries = copying.send(arguments, entries, reach, meter)
        else:
            deliveries = copying.fetch(
                arguments, reach, meter, recursive=recursive, is_one=place.is_one
            )
    _conclude(runtime, reach, deliveries)


def _conclude(runtime: Runtime, reach: WorkerReach, done: Sequence[Delivery]) -> None:
    """Show the result on every worker; raises what `node exec` raises."""
    name = reach.node.name
    columns = DOCUMENT if runtime.output.is_document else COLUMNS
    runtime.output.items(done, columns, title=f"workers of {name}")
    failed = [delivery for delivery in done if delivery.error]
    if not failed:
        return
    if len(done) > 1 or done[0].objects_copied or len(done[0].failures) > 1:
        _warn(runtime, failed)
    raise_if_preempted(runtime, reach.node)
    if len(done) == 1:
        raise _failure(done[0], name)
    names = ", ".join(str(delivery.worker_id) for delivery in failed)
    hint = FIX_CAUSE_HINT if all(each.failures for each in failed) else RERUN_HINT.format(name)
    raise PartialFailureError(f"{len(failed)} of {len(done)} workers failed: {names}", hint=hint)


def _warn(runtime: Runtime, failed: Sequence[Delivery]) -> None:
    """Every cause once, with the workers that it is the cause on."""
    workers: dict[str, list[int]] = {}
    for delivery in failed:
        for text in _causes(delivery):
            workers.setdefault(text, []).append(delivery.worker_id)
    for text, numbers in workers.items():
        who = "worker" if len(numbers) == 1 else "workers"
        runtime.output.warn(f"{who} {format_ranges(numbers)}: {text}")


def _causes(delivery: Delivery) -> Iterator[str]:
    if not delivery.failures:
        yield str(delivery.error)
    for failure in delivery.failures[:NAMED_AT_MOST]:
        yield f"{printable(failure.path)}: not copied: {failure.why}"
    more = len(delivery.failures) - NAMED_AT_MOST
    if more > 0:
        yield f"and {more} more were not copied"


def _failure(delivery: Delivery, name: str) -> TpuctlError:
    """The error of the only worker of a node of that name."""
    text = f"worker {delivery.worker_id}: {delivery.error}"
    if not delivery.failures:
        return TransientError(text, hint=RERUN_HINT.format(name))
    if delivery.objects_copied:
        count = len(delivery.failures)
        text = f"{count} of {count + delivery.objects_copied} files failed"
        return PartialFailureError(text, hint=FIX_CAUSE_HINT)
    kind, hint = _KINDS.get(delivery.failures[0].errno, _REFUSED)
    return kind(text, hint=hint)
