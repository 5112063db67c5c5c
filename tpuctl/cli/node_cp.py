"""`tpuctl node cp`: files and directories to and from workers."""

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tpuctl.cli.data_progress import finding_out
from tpuctl.cli.node_shell import DialerOption
from tpuctl.cli.output import printable
from tpuctl.cli.runtime import Runtime
from tpuctl.errors import (
    LocalIOError,
    NotFoundError,
    PartialFailureError,
    TpuctlError,
    TransientError,
    UsageError,
)
from tpuctl.operations.places import Copy, copy_of
from tpuctl.operations.stage.endpoints import ALL, OnWorkers

if TYPE_CHECKING:
    from tpuctl.operations import copying
    from tpuctl.operations.stage.workers import Reach

RESULTS = {
    "worker": lambda one: one.worker_id,
    "state": lambda one: one.state,
    "files_copied": lambda one: one.files,
    "bytes_copied": lambda one: one.size_bytes,
    "files_failed": lambda one: len(one.failures),
    "error": lambda one: one.error,
}
AGAIN = "run the same command again; or look: tpuctl node list"
NAMED_AT_MOST = 10
_REFUSED = LocalIOError, "see that there is room and permission, then run it again"
_KINDS: dict[int, tuple[type[TpuctlError], str]] = {
    errno.ENOENT: (NotFoundError, "check the path"),
    errno.EISDIR: (UsageError, "repeat it with -r"),
}


def copy(
    ctx: typer.Context,
    paths: Annotated[
        list[str],
        typer.Argument(metavar="SRC... DST", help="NAME:PATH on one side, local on the other."),
    ],
    worker: Annotated[
        str | None,
        typer.Option(metavar="IDS", help="all, 0, 1,4,6 or 1-3; default: to all, from 0."),
    ] = None,
    recursive: Annotated[
        bool, typer.Option("--recurse", "-r", help="Directories with all that is in them.")
    ] = False,
    dialer: DialerOption = None,
) -> None:
    """Copy files to the workers of a node, or from them.

    A path of a worker begins at its HOME and may be a pattern. As with cp, a copy goes into DST
    where that is a directory, else it is called DST; from several workers it goes into DST/0,
    DST/1 and so on. No file shows under its name before it is whole.
    """
    from tpuctl.cli.data_workers import reach
    from tpuctl.operations import copying

    runtime = ctx.ensure_object(Runtime)
    runtime.dialer = dialer
    asked = copy_of(paths)
    target = copying.target_of(asked)
    entries = copying.listed(asked.sources, recursive=recursive) if asked.is_upload else []
    place = OnWorkers(asked.node, worker or (ALL if asked.is_upload else "0"), asked.target)
    reached = reach(runtime, place)
    runtime.goes_on.append("what was copied stays; no file is there in part")
    with finding_out(runtime) as watch:
        if asked.is_upload:
            done = copying.push(reached, entries, target, watch)
        else:
            targets = _targets(asked, reached, into=target.into, is_one=place.is_one)
            done = copying.pull(reached, asked.sources, targets, watch, recursive=recursive)
    _conclude(runtime, reached, done)


def _targets(
    asked: Copy, reached: "Reach", *, into: bool, is_one: bool
) -> dict[int, "copying.Target"]:
    """Where each worker's files go here."""
    from tpuctl.operations.copying import Target

    here = Path(asked.target).absolute()
    if is_one:
        return {worker.worker_id: Target(str(here), into=into) for worker in reached.workers}
    return {
        worker.worker_id: Target(str(here / str(worker.worker_id)), into=True)
        for worker in reached.workers
    }


def _conclude(runtime: Runtime, reached: "Reach", done: Sequence["copying.Outcome"]) -> None:
    """Tell what became of it; raises what `node exec` raises."""
    runtime.output.items(done, RESULTS, title=f"workers of {reached.node.name}")
    failed = [one for one in done if one.error]
    if not failed:
        return
    for one in failed:
        _warn(runtime, one)
    from tpuctl.cli.data_workers import raise_preempted

    raise_preempted(runtime, reached)
    if len(done) == 1:
        raise _failure(done[0])
    names = ", ".join(str(one.worker_id) for one in failed)
    raise PartialFailureError(f"{len(failed)} of {len(done)} workers failed: {names}", hint=AGAIN)


def _warn(runtime: Runtime, outcome: "copying.Outcome") -> None:
    if not outcome.failures:
        runtime.output.warn(f"worker {outcome.worker_id}: {outcome.error}")
    for one in outcome.failures[:NAMED_AT_MOST]:
        name = printable(one.path)
        runtime.output.warn(f"worker {outcome.worker_id}: {name}: not copied: {one.why}")
    more = len(outcome.failures) - NAMED_AT_MOST
    if more > 0:
        runtime.output.warn(f"worker {outcome.worker_id}: and {more} more were not copied")


def _failure(outcome: "copying.Outcome") -> TpuctlError:
    """The error of the only worker."""
    text = f"worker {outcome.worker_id}: {outcome.error}"
    if not outcome.failures:
        return TransientError(outcome.error or text, hint=AGAIN)
    if outcome.files:
        count = len(outcome.failures)
        return PartialFailureError(f"{count} of {count + outcome.files} files failed", hint=AGAIN)
    kind, hint = _KINDS.get(outcome.failures[0].number, _REFUSED)
    return kind(text, hint=hint)
