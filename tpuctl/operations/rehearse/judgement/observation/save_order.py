"""What is wrong with the order in which a run writes and deletes the objects of its saves."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tpuctl.models.rehearsal.verdict import Cause
from tpuctl.operations.rehearse.judgement.observation.object_events import ObjectAccess, ObjectWrite
from tpuctl.operations.rehearse.judgement.observation.observed_saves import ObservedSave


class OrderFinding(NamedTuple):
    """An order that loses or mixes a save when the job ends between two requests.

    It is a suspicion: a program may complete its saves by another rule than is assumed here. It
    explains a moment that failed, and fails none.
    """

    cause: Cause
    text: str
    """One sentence with the names of the objects."""


def find_order_defects(
    saves: Sequence[ObservedSave], deletions: Sequence[ObjectAccess]
) -> tuple[OrderFinding, ...]:
    """The suspicions of an undisturbed run, each cause once, by the first save that shows it."""
    findings: dict[Cause, OrderFinding] = {}
    for save in saves:
        for finding in _findings_of(save):
            findings.setdefault(finding.cause, finding)
    if (empty := _moment_without_save(saves, deletions)) is not None:
        findings.setdefault(empty.cause, empty)
    return tuple(findings.values())


def _findings_of(save: ObservedSave) -> Iterator[OrderFinding]:
    for rule in (_torn_marker, _shared_object, _early_marker):
        if (finding := rule(save)) is not None:
            yield finding


def _torn_marker(save: ObservedSave) -> OrderFinding | None:
    by_caller: dict[str, list[ObjectWrite]] = {}
    for write in save.marker_writes:
        if write.complete_s is not None:
            by_caller.setdefault(write.caller, []).append(write)
    torn = next((writes for writes in by_caller.values() if len(writes) > 1), None)
    if torn is None:
        return None
    sizes = " and then ".join(f"{write.size_bytes} bytes" for write in torn)
    text = f"{_shown(save.marker or '')} is written {len(torn)} times in one save: {sizes}"
    return OrderFinding(Cause.TORN_MARKER, text)


def _shared_object(save: ObservedSave) -> OrderFinding | None:
    callers: dict[str, set[str]] = {}
    for write in save.writes:
        callers.setdefault(write.name, set()).add(write.caller)
    shared = next((name for name in sorted(callers) if len(callers[name]) > 1), None)
    if shared is None:
        return None
    workers = ", ".join(sorted(callers[shared]))
    text = f"{_shown(shared)} is written by several workers in one save: {workers}"
    return OrderFinding(Cause.SAME_OBJECT_FROM_SEVERAL_WORKERS, text)


def _early_marker(save: ObservedSave) -> OrderFinding | None:
    """A marker that was there before an object of the data was.

    The two ends of uploads are compared: when the marker waits for the data, a whole request lies
    between them, which is longer than the log's times may be off.
    """
    marker = next((write for write in save.marker_writes if write.complete_s is not None), None)
    if marker is None or marker.complete_s is None:
        return None
    lates = [write for write in save.data if _is_later(write, marker.complete_s)]
    # What the marker's own worker wrote late says more: it needs no word of the others for that.
    late = next((write for write in lates if write.caller == marker.caller), None)
    if (late := late or next(iter(lates), None)) is None:
        return None
    cause = _early_marker_cause(marker, late)
    text = f"{_shown(marker.name)} was complete before {_shown(late.name)}"
    return OrderFinding(cause, text)


def _is_later(write: ObjectWrite, marker_s: float) -> bool:
    return write.complete_s is not None and write.complete_s > marker_s


def _early_marker_cause(marker: ObjectWrite, late: ObjectWrite) -> Cause:
    """Another worker's object, or one whose upload began later, or one that was under way."""
    if marker.caller != late.caller:
        return Cause.MARKER_BEFORE_OTHER_WORKERS
    return Cause.MARKER_BEFORE_DATA if marker.number < late.number else Cause.NOT_DURABLE


def _moment_without_save(
    saves: Sequence[ObservedSave], deletions: Sequence[ObjectAccess]
) -> OrderFinding | None:
    """A deletion after which no save was whole, although one had been before."""
    whole = [save for save in saves if save.complete_s is not None]
    owned = {name for save in whole for name in _own_names(save, saves)}
    for deletion in sorted(deletions, key=lambda deletion: deletion.number):
        if not deletion.is_found or deletion.name not in owned:
            continue
        if not any(_is_kept(save, saves, deletions, deletion.number) for save in whole):
            text = f"{_shown(deletion.name)} is deleted while no other save is complete"
            return OrderFinding(Cause.DELETES_OLD_STEP_FIRST, text)
    return None


def _own_names(save: ObservedSave, saves: Sequence[ObservedSave]) -> set[str]:
    """The names that only this save writes."""
    others = {write.name for other in saves if other is not save for write in other.writes}
    return {write.name for write in save.writes} - others


def _is_kept(
    save: ObservedSave,
    saves: Sequence[ObservedSave],
    deletions: Sequence[ObjectAccess],
    number: int,
) -> bool:
    """Whether a save was begun to its last object, and none of it was deleted, by a request."""
    names = _own_names(save, saves)
    is_deleted = any(
        deletion.is_found and deletion.number <= number and deletion.name in names
        for deletion in deletions
    )
    return not is_deleted and all(write.number < number for write in save.writes)


def _shown(name: str) -> str:
    return f"gs://{name}"
