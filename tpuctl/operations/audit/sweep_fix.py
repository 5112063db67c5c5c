"""Deleting orphans: each is read again just before, and left alone when anything has changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuctl.api.tpu.next_step import NODE, QR, About
from tpuctl.errors import NotFoundError, TpuctlError
from tpuctl.jobs.slices.world import LABEL
from tpuctl.models.node import Node
from tpuctl.operations.audit.sweep import (
    Asker,
    Found,
    Holding,
    Verdict,
    judge,
    of_node,
    of_request,
    read_books,
)
from tpuctl.operations.slices import wait
from tpuctl.operations.slices.wait import Patience

if TYPE_CHECKING:
    from tpuctl.api.tpu.tpu import TpuApi
    from tpuctl.store import Store

DELETED, GONE, LEFT, FAILED = "deleted", "gone", "left", "failed"


@dataclass(frozen=True, slots=True)
class Fixed:
    """What became of an orphan: deleted, gone by itself, left alone, or failed; and why."""

    found: Found
    outcome: str
    why: str = ""


def delete(
    api: TpuApi, store: Callable[[], Store], found: Found, asker: Asker, patience: Patience
) -> Fixed:
    """Delete one orphan and wait until it is gone; never raises TpuctlError."""
    try:
        now = again(api, found.holding)
        if now is None:
            return Fixed(found, GONE)
        if why := changed(found.holding, now):
            return Fixed(found, LEFT, why)
        judged = judge(now, read_books(store, filter(None, [now.job_id])), asker)
        if judged.verdict != Verdict.ORPHAN:
            return Fixed(found, LEFT, judged.why)
        _deleted(api, now, patience)
    except NotFoundError:
        return Fixed(found, GONE)
    except TpuctlError as error:
        return Fixed(found, FAILED, str(error))
    return Fixed(found, DELETED)


def again(api: TpuApi, holding: Holding) -> Holding | None:
    """The same thing as it is now; None when it is gone."""
    try:
        if holding.noun == NODE:
            return of_node(api.get_node(holding.zone, holding.name))
        request = api.get_queued_resource(holding.zone, holding.name)
    except NotFoundError:
        return None
    nodes = [_node(api, holding.zone, name) for name in request.node_names]
    return of_request(request, [node for node in nodes if node])


def changed(before: Holding, now: Holding) -> str | None:
    """Why it is not the thing that was looked at; a node that went meanwhile changes nothing."""
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


def _deleted(api: TpuApi, holding: Holding, patience: Patience) -> None:
    zone, name = holding.zone, holding.name
    if holding.noun == NODE:
        operation = api.delete_node(zone, name)
    else:
        operation = api.delete_queued_resource(zone, name, force=True)
    noun = NODE if holding.noun == NODE else QR
    about = About(f"delete {noun} {name!r}", noun, name, zone)
    wait.operation_done(api, operation, patience, about=about)
