"""How a command ended on each worker, and what that means for the exit code."""

import signal
from collections.abc import Sequence

import typer

from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.values import attributes
from tpuctl.cli.shell.worker_access import CHECK_WORKERS_HINT, raise_if_preempted
from tpuctl.errors import PartialFailureError, TransientError
from tpuctl.models.operation import CommandResult
from tpuctl.models.worker_numbers import format_ranges
from tpuctl.operations.workers.execute import TIMED_OUT
from tpuctl.operations.workers.targets import CommandTarget

"""The exit status of a command that was ended for taking too long, as timeout(1) has it."""
_SIGNALLED = 128
RESULTS = {
    **attributes(worker="worker_id", exit_status="exit_status"),
    "stdout": lambda done: done.stdout.decode("utf-8", "replace"),
    "stderr": lambda done: done.stderr.decode("utf-8", "replace"),
    **attributes("lost"),
}


def report_results(runtime: Runtime, target: CommandTarget, done: Sequence[CommandResult]) -> None:
    """Exit with the status of an only worker; of several, report which failed."""
    if len(done) == 1:
        _exit_as(runtime, target, done[0])
    failed = [each for each in done if each.exit_status]
    if not failed:
        return
    if not runtime.output.is_document:
        runtime.err.write(_table(done) + "\n")
    for each in failed:
        if each.refusal:
            raise each.refusal
    _raise_preempted(runtime, target, failed)
    count = f"{len(failed)} of {len(done)}"
    raise PartialFailureError(f"{count} workers failed", hint=_next_step(target, done))


def end_text(done: CommandResult) -> str:
    """How the command ended on one worker, in a few words."""
    if done.lost:
        reason = done.lost_because
        return reason if done.refusal or done.exit_status == TIMED_OUT else f"lost: {reason}"
    number = done.exit_status - _SIGNALLED
    if number in set(signal.Signals):
        return f"killed by signal {number}"
    return f"exit {done.exit_status}" if done.exit_status else "ok"


def _next_step(target: CommandTarget, done: Sequence[CommandResult]) -> str | None:
    noun, name = target.noun, target.name
    if not all(each.exit_status for each in done):
        return f"run it on them alone: tpuctl {noun} exec {name} --only-failed -- COMMAND"
    if all(each.exit_status == _SIGNALLED + signal.SIGTERM for each in done):
        return f"as before a preemption; run: tpuctl {noun} describe {name}"
    return _check_hint(target) if any(each.lost for each in done) else None


def _check_hint(target: CommandTarget) -> str:
    return "; ".join(CHECK_WORKERS_HINT.format(node.name) for node in target.nodes)


def _raise_preempted(
    runtime: Runtime, target: CommandTarget, failed: Sequence[CommandResult]
) -> None:
    """Raise PreemptedError if the node is gone: a warned preemption ends programs first."""
    if any(each.lost or each.exit_status > _SIGNALLED for each in failed):
        for node in target.nodes:
            raise_if_preempted(runtime, node)


def _exit_as(runtime: Runtime, target: CommandTarget, done: CommandResult) -> None:
    if done.refusal:
        raise done.refusal
    _raise_preempted(runtime, target, [done])
    if done.exit_status == TIMED_OUT and done.lost:
        runtime.output.note(done.lost)
    elif done.lost:
        raise TransientError(done.lost, hint=f"run it again; or {_check_hint(target)}")
    raise typer.Exit(done.exit_status)


def _table(done: Sequence[CommandResult]) -> str:
    """A row for each worker that failed, and one for the others together."""
    rows = [("WORKER", "EXIT", "WHY")]
    for result in done:
        if result.exit_status:
            status = "-" if result.lost else str(result.exit_status)
            rows.append((str(result.worker_id), status, end_text(result)))
    fine = [result.worker_id for result in done if not result.exit_status]
    if fine:
        rows.append((format_ranges(fine), "0", "ok"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
