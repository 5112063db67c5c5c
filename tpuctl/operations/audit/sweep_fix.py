"""Deleting orphans: each is read again just before, and left alone when anything has changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuctl.api.tpu.hints import NODE, QR, CallSubject
from tpuctl.errors import NotFoundError, TpuctlError
from tpuctl.jobs.slices.slice_api import LABEL
from tpuctl.models.node import Node
from tpuctl.operations.audit.sweep import (
    ClassifiedHolding,
    Holding,
    Ownership,
    SweepScope,
    classify,
    node_holding,
    read_job_records,
    request_holding,
)
from tpuctl.operations.slices import wait
from tpuctl.operations.slices.wait import Patience

if TYPE_CHECKING:
    from tpuctl.api.tpu.tpu import TpuApi
    from tpuctl.store import Store

DELETED, GONE, LEFT, FAILED = "deleted", "gone", "left", "failed"


@dataclass(frozen=True, slots=True)
class SweepResult:
    """What became of an orphan: deleted, gone by itself, left alone, or failed; and why."""

    found: ClassifiedHolding
    outcome: str
    why: str = ""


def delete_orphan(
    api: TpuApi,
    store: Callable[[], Store],
    found: ClassifiedHolding,
    asker: SweepScope,
    patience: Patience,
) -> SweepResult:
    """Delete one orphan and wait until it is gone; never raises TpuctlError."""
    try:
        now = reread_holding(api, found.holding)
        if now is None:
            return SweepResult(found, GONE)
        if why := change_text(found.holding, now):
            return SweepResult(found, LEFT, why)
        judged = classify(now, read_job_records(store, filter(None, [now.job_id])), asker)
        if judged.verdict != Ownership.ORPHAN:
            return SweepResult(found, LEFT, judged.why)
        _delete_and_wait(api, now, patience)
    except NotFoundError:
        return SweepResult(found, GONE)
    except TpuctlError as error:
        return SweepResult(found, FAILED, str(error))
    return SweepResult(found, DELETED)


def reread_holding(api: TpuApi, holding: Holding) -> Holding | None:
    """The holding as the API reports it now; None when it is gone."""
    try:
        if holding.noun == NODE:
            return node_holding(api.get_node(holding.zone, holding.name))
        request = api.get_queued_resource(holding.zone, holding.name)
    except NotFoundError:
        return None
    nodes = [_node(api, holding.zone, name) for name in request.node_names]
    return request_holding(request, [node for node in nodes if node])


def change_text(before: Holding, now: Holding) -> str | None:
    """Why a holding is not the one seen before; None if it is, even with fewer nodes."""
    if now.job_id != before.job_id:
        return f"its label {LABEL} is another one"
    if now.created_s != before.created_s:
        return "it was made anew"
    added = now.node_ids - before.node_ids
    return f"it has another node: id {min(added)}" if added else None


def _node(api: TpuApi, zone: str, name: str) -> Node | None:
    try:
        return api.get_node(zone, name)
    except NotFoundError:
        return None


def _delete_and_wait(api: TpuApi, holding: Holding, patience: Patience) -> None:
    zone, name = holding.zone, holding.name
    if holding.noun == NODE:
        operation = api.delete_node(zone, name)
    else:
        operation = api.delete_queued_resource(zone, name, force=True)
    noun = NODE if holding.noun == NODE else QR
    about = CallSubject(f"delete {noun} {name!r}", noun, name, zone)
    wait.wait_for_operation(api, operation, patience, about=about)
