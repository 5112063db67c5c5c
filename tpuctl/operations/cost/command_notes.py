"""What a command notes of the slices that it has changed or listed, for whoever asks later."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpuctl.ledger.brief_write import write_briefly
from tpuctl.ledger.cloud_clock import known_offset_s
from tpuctl.ledger.slice_facts import (
    Sighting,
    collect_facts,
    identity_fact,
    labels_fact,
    sighting_fact,
)
from tpuctl.ledger.slice_notes import note_facts
from tpuctl.ledger.slice_survey import SliceSurvey, identity_of, new_facts
from tpuctl.models.node import Node
from tpuctl.store import Store

if TYPE_CHECKING:
    from tpuctl.api.tpu.tpu import TpuApi


def note_changes(
    api: TpuApi,
    open_store: Callable[[], Store],
    home: Path,
    now_s: float,
    nodes: Iterable[Node] = (),
    *,
    is_ours: bool = False,
) -> None:
    """Note what the API has told of changes to these nodes. Never fails, and never takes long.

    `is_ours` says that this user has made them.
    """
    owner = _owner() if is_ours else ""
    told: list[dict[str, Any]] = []
    for node in nodes:
        told.append(identity_fact(replace(identity_of(node), owner=owner)))
        told.append(labels_fact(str(node.node_id), node.labels, node.created_s))
    changes = SliceSurvey(now_s, operations=tuple(api.heard), zones=())
    told += new_facts(changes, collect_facts(told))
    if told:
        _note_briefly(open_store, home, lambda _: told, now_s)


def note_nodes(
    api: TpuApi,
    open_store: Callable[[], Store],
    home: Path,
    now_s: float,
    nodes: Sequence[Node],
) -> None:
    """Note that these nodes are there, or were deleted since. Never fails, and never takes long."""

    def facts(cloud_s: float) -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = []
        for node in nodes:
            node_id = str(node.node_id)
            told.append(identity_fact(identity_of(node)))
            told.append(labels_fact(node_id, node.labels, cloud_s))
            told.append(sighting_fact(node_id, Sighting(cloud_s, str(node.state))))
        changes = SliceSurvey(cloud_s, operations=tuple(api.heard), zones=())
        return told + new_facts(changes, collect_facts(told))

    if nodes or api.heard:
        _note_briefly(open_store, home, facts, now_s)


def _owner() -> str:
    from tpuctl.jobs.submit.job_submission import default_owner  # of many imports

    return default_owner()


def _note_briefly(
    open_store: Callable[[], Store],
    home: Path,
    facts: Callable[[float], list[dict[str, Any]]],
    now_s: float,
) -> None:
    """Note the facts of a moment by the clock of the cloud, as far as that is known here."""

    def note() -> None:
        store = open_store()
        cloud_s = now_s + known_offset_s(store, home)
        note_facts(store, home, facts(cloud_s), cloud_s)

    write_briefly(note)
