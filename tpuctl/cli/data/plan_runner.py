"""From a plan to its end: shown, confirmed, carried out, and what came of it as an exit code."""

import errno
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tpuctl.byte_size import count_text, size_text
from tpuctl.cli.shell.copy_progress import show_copy
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.listing import Listing
from tpuctl.cli.shell.tables.values import Size, printable
from tpuctl.errors import (
    CredentialsError,
    LocalIOError,
    LockedError,
    PartialFailureError,
    PermissionDeniedError,
    RefusedError,
    TpuctlError,
    TransientError,
)
from tpuctl.models.transfer import (
    PlannedDeletion,
    Transfer,
    TransferEvent,
    TransferFinished,
    TransferPlan,
)
from tpuctl.operations.stage.plan.names import refused_error
from tpuctl.operations.stage.transfer.pool import finished_transfers

PLAN_COLUMNS = {
    "key": lambda row: row[1].key,
    "path": lambda row: row[0].path(row[1].name),
    "size_bytes": lambda row: Size(row[1].size_bytes),
    "action": lambda row: _action(row[1]),
}
PLAN: Listing[tuple[TransferPlan, Any]] = Listing(PLAN_COLUMNS, least=("path",))
SENT = "sent"
RECEIVED = "received"
RERUN_HINT = "run the same command again: what is there is not sent twice"
_GENERAL: dict[type[TpuctlError], str] = {
    LocalIOError: "see that there is room and permission, then run the same command again",
    PermissionDeniedError: "the owner of the bucket grants it: roles/storage.objectUser",
    CredentialsError: "run: gcloud auth application-default login",
    TransientError: RERUN_HINT,
    LockedError: "when the other one is done, run the same command again",
}
"""What is not the matter of one object, and what to do: the outcome when nothing was copied."""
_FULL = (errno.ENOSPC, errno.EDQUOT)
_FULL_IN_A_ROW = 8
"""After so many objects without room, and none with, no other is fetched to be refused too."""

Steps = Callable[[], Iterator[TransferEvent]]


@dataclass(frozen=True)
class PlanOptions:
    """The options that decide whether a plan is carried out, and what it may delete."""

    dry_run: bool
    yes: bool
    max_delete: int


def carry_out_plan(
    runtime: Runtime,
    plan: TransferPlan,
    consent: PlanOptions,
    done: str,
    *,
    copy: Steps,
    remove: Steps | None,
) -> None:
    """Carry a plan out; `done` is what it makes of objects: sent or received.

    Raises PartialFailureError or RefusedError for what was refused or failed by name, after the
    rest was copied.
    """
    if not plan.transfers and not plan.refusals:
        runtime.output.warn("no file matches")
    if consent.dry_run:
        rows = [(plan, one) for one in (*plan.transfers, *plan.deletions)]
        runtime.output.items(rows, PLAN)
        _raise_refused(runtime, plan)
        return
    _confirm(runtime, plan, consent)
    again = "run the same command again to copy the rest"
    runtime.on_interrupt.append(f"what was {done} stays, also of files that are not whole; {again}")
    counts: Counter[str] = Counter()
    errors = _copy_all(runtime, plan, copy, counts)
    if plan.deletions and remove is not None:
        if errors or plan.refusals:
            runtime.output.warn("nothing was deleted, because not everything was copied")
        else:
            errors = _remove_all(runtime, remove, counts)
    row: dict[str, int | Size] = {
        f"objects_{done}": counts["objects"],
        f"bytes_{done}": Size(counts["bytes"]),
        "objects_skipped": len(plan.transfers) - len(plan.to_send) + counts["skipped"],
    }
    if remove is not None:
        row["objects_deleted"] = counts["deleted"]
    runtime.output.fields(row)
    _raise_failures(plan, errors, counts)
    _raise_refused(runtime, plan)


def carry_out_removal(
    runtime: Runtime, deletions: Sequence[PlannedDeletion], events: Iterable[TransferEvent]
) -> None:
    """Delete the objects of a plan and say how many are gone.

    Raises PartialFailureError after the rest is deleted, or when nothing could be deleted for one
    general reason the error of that.
    """
    total, gone, gone_bytes = len(deletions), 0, 0
    errors: list[TpuctlError] = []
    size_bytes = sum(deletion.size_bytes for deletion in deletions)
    runtime.on_interrupt.append(_deleted_text(0, total))
    with show_copy(runtime, total, size_bytes) as watch:
        for event in finished_transfers(events, watch, runtime.output.warn):
            if event.error is not None:
                errors.append(_warn_of(runtime, event))
                continue
            gone, gone_bytes = gone + 1, gone_bytes + event.subject.size_bytes
            watch.advance(event.subject.size_bytes)
            runtime.on_interrupt[-1] = _deleted_text(gone, total)
    runtime.output.fields({"objects_deleted": gone, "bytes_deleted": Size(gone_bytes)})
    _raise_undeleted(errors, gone, total)


def _deleted_text(count: int, total: int) -> str:
    verb = "is" if count == 1 else "are"
    rest = "run the same command again to delete the rest"
    return f"{count} of {count_text(total, 'object')} {verb} deleted; {rest}"


def _raise_undeleted(errors: Sequence[TpuctlError], gone: int, total: int) -> None:
    if not errors:
        return
    kinds = {type(error) for error in errors}
    kind = kinds.pop()
    if not gone and not kinds and kind in _GENERAL:
        raise kind(str(errors[0]), hint=errors[0].hint or _GENERAL[kind])
    raise PartialFailureError(
        f"{len(errors)} of {count_text(total, 'object')} could not be deleted",
        hint="run the same command again to delete the rest",
    )


def _confirm(runtime: Runtime, plan: TransferPlan, consent: PlanOptions) -> None:
    if not plan.deletions:
        return
    for one in plan.deletions:
        runtime.output.note(printable(f"to delete: {one.key}"))
    count, size_bytes = len(plan.deletions), sum(one.size_bytes for one in plan.deletions)
    if count > consent.max_delete:
        raise RefusedError(
            f"{count} would be deleted, more than --max-delete {consent.max_delete}",
            hint=f"if that is right, repeat it with --max-delete {count}",
        )
    what = f"{count_text(count, 'object')} that {'is' if count == 1 else 'are'}"
    size = size_text(size_bytes)
    runtime.confirm(f"Delete {what} only at the target ({size})?", yes=consent.yes)


def _copy_all(
    runtime: Runtime, plan: TransferPlan, copy: Steps, counts: Counter[str]
) -> list[TpuctlError]:
    errors: list[TpuctlError] = []
    without_room = 0
    with show_copy(runtime, len(plan.to_send), plan.size_bytes) as watch:
        for event in finished_transfers(copy(), watch, runtime.output.warn):
            if event.error is None:
                _count(event, counts)
                without_room = 0
                continue
            errors.append(_warn_of(runtime, event))
            without_room = without_room + 1 if _is_full(event.error) else 0
            if without_room == _FULL_IN_A_ROW:
                break
    return errors


def _count(event: TransferFinished, counts: Counter[str]) -> None:
    if event.was_there:
        counts["skipped"] += 1
        return
    counts["objects"] += 1
    counts["bytes"] += event.subject.size_bytes


def _remove_all(runtime: Runtime, remove: Steps, counts: Counter[str]) -> list[TpuctlError]:
    errors = []
    for event in remove():
        if isinstance(event, TransferFinished):
            if event.error is None:
                counts["deleted"] += 1
                runtime.output.note(printable(f"deleted: {event.subject.key}"))
            else:
                errors.append(_warn_of(runtime, event))
    return errors


def _warn_of(runtime: Runtime, event: TransferFinished) -> TpuctlError:
    assert event.error is not None
    key, text = event.subject.key, str(event.error)
    runtime.output.warn(text if key in text else f"{key}: {text}")
    return event.error


def _raise_failures(plan: TransferPlan, errors: list[TpuctlError], counts: Counter[str]) -> None:
    if not errors:
        return
    arrived = counts["objects"] + counts["skipped"]
    if not counts["deleted"] and arrived + len(errors) < len(plan.to_send):
        hint = "make room, then run the same command again to copy the rest"
        raise LocalIOError(str(errors[-1]), hint=hint)
    kinds = {type(error) for error in errors}
    kind = kinds.pop()
    if not arrived and not kinds and kind in _GENERAL and not plan.refusals:
        raise kind(str(errors[0]), hint=errors[0].hint or _GENERAL[kind])
    total = len(plan.to_send) if not counts["deleted"] else len(plan.deletions)
    raise PartialFailureError(
        f"{len(errors)} of {count_text(total, 'object')} failed",
        hint=RERUN_HINT,
    )


def _is_full(error: TpuctlError) -> bool:
    cause = error.__cause__
    return isinstance(error, LocalIOError) and isinstance(cause, OSError) and cause.errno in _FULL


def _raise_refused(runtime: Runtime, plan: TransferPlan) -> None:
    for refusal in plan.refusals:
        runtime.output.warn(f"{refusal.name}: not copied: {refusal.why}")
    if plan.refusals:
        kind = PartialFailureError if plan.transfers else RefusedError
        raise refused_error(len(plan.refusals), kind)


def _action(one: Any) -> str:
    if isinstance(one, PlannedDeletion):
        return "delete"
    return "skip" if isinstance(one, Transfer) and one.is_current else "send"
