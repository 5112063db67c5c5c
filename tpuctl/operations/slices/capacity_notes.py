"""Tells all who use the bucket what a request met; a command never fails or waits long for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tpuctl.api.tpu.explain import refusal_cause
from tpuctl.errors import PreemptedError, TpuctlError
from tpuctl.ledger.brief_write import write_briefly
from tpuctl.models.capacity.capacity_event import (
    CapacityEvent,
    CapacityEventKind,
    RefusalCause,
    node_key,
    request_key,
)
from tpuctl.models.node import JOB_LABEL, Node, NodeSpec
from tpuctl.models.queued_resource import QueuedResource, QueuedResourceState

if TYPE_CHECKING:
    from tpuctl.store import Store

SERVICE = "SERVICE"

NoteEvent = Callable[[CapacityEvent], None]


def write_in_time(
    events: Iterable[CapacityEvent], home: Path, open_store: Callable[[], Store]
) -> None:
    """Write events to the ledger of the bucket, if that does not take long."""
    noted = list(events)

    def write() -> None:
        from tpuctl.ledger.observer import observer_id
        from tpuctl.ledger.refusals import note_events

        note_events(open_store(), observer_id(home), noted)

    write_briefly(write)


@contextmanager
def note_refusal(
    note: NoteEvent, spec: NodeSpec, slices: int, key: str, now: Callable[[], float]
) -> Iterator[None]:
    """Note a refusal of what is created during the block, which goes on to the caller."""
    try:
        yield
    except TpuctlError as error:
        if cause := refusal_cause(error):
            note(
                CapacityEvent(
                    key,
                    CapacityEventKind.REFUSED,
                    now(),
                    spec.accelerator_type,
                    spec.zone,
                    str(spec.provisioning),
                    slices,
                    cause,
                )
            )
        raise


def grant_of_node(node: Node, waited_s: float, now_s: float) -> CapacityEvent:
    """The event of a node that is READY after so many seconds."""
    return CapacityEvent(
        node_key(node.node_id),
        CapacityEventKind.GRANTED,
        now_s,
        node.accelerator_type,
        node.zone,
        str(node.provisioning),
        after_s=max(0.0, waited_s),
    )


def note_states(
    note: NoteEvent, states: Iterable[QueuedResource], now: Callable[[], float]
) -> Iterator[QueuedResource]:
    """Yield the states of a request as they come, and note what they say of its zone.

    One that waits was refused so far. One that was ACTIVE at the first look was granted at a time
    that nobody knows.
    """
    seen: list[QueuedResource] = []
    try:
        for request in states:
            seen.append(request)
            yield request
            if event := _event_of_state(request, now(), is_first=len(seen) == 1):
                note(event)
    except TpuctlError as error:
        if seen and (event := _event_of_error(seen[-1], error, now())):
            note(event)
        raise


def waiting_event(request: QueuedResource, now_s: float) -> CapacityEvent | None:
    """The refusal that a request which waits for resources has met so far; None for others."""
    may_be_granted = request.valid_after_s is None or request.valid_after_s <= now_s
    if request.state != QueuedResourceState.WAITING_FOR_RESOURCES or not may_be_granted:
        return None
    return _event(request, CapacityEventKind.REFUSED, now_s, cause=RefusalCause.STOCKOUT)


def _event_of_state(
    request: QueuedResource, now_s: float, *, is_first: bool
) -> CapacityEvent | None:
    if request.state != QueuedResourceState.ACTIVE:
        return waiting_event(request, now_s)
    if is_first:
        return None
    waited_s = max(0.0, now_s - max(request.created_s, request.valid_after_s or 0.0))
    return _event(request, CapacityEventKind.GRANTED, now_s, after_s=waited_s)


def _event_of_error(
    request: QueuedResource, error: TpuctlError, now_s: float
) -> CapacityEvent | None:
    if isinstance(error, PreemptedError):
        is_preempted = request.initiator == SERVICE
        return _event(request, CapacityEventKind.PREEMPTED, now_s) if is_preempted else None
    cause = refusal_cause(error)
    return _event(request, CapacityEventKind.REFUSED, now_s, cause=cause) if cause else None


def _event(
    request: QueuedResource,
    kind: CapacityEventKind,
    time_s: float,
    *,
    cause: RefusalCause | None = None,
    after_s: float | None = None,
) -> CapacityEvent:
    is_of_job = JOB_LABEL in request.labels  # then its name is never used again
    created_s = None if is_of_job else request.created_s
    return CapacityEvent(
        request_key(request.zone, request.name, created_s),
        kind,
        time_s,
        request.accelerator_type,
        request.zone,
        str(request.provisioning),
        request.node_count,
        cause,
        after_s,
    )
