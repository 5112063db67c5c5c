"""Notes facts about slices in the bucket, and reads those of everybody."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tpuctl.ledger.cloud_clock import clock_offset_s
from tpuctl.ledger.dated_lines import add_lines, day_of, decode_lines, read_texts
from tpuctl.ledger.line_cache import LineCache
from tpuctl.ledger.observer import observer_id
from tpuctl.ledger.slice_facts import KIND, SliceFacts, collect_facts, prune_facts
from tpuctl.ledger.slice_survey import SliceSurvey, new_facts
from tpuctl.models.node import Node
from tpuctl.models.operation import Operation
from tpuctl.store import Store

Look = Callable[[], tuple[Sequence[Node], Collection[str], Sequence[Operation]]]
"""All nodes, the zones that did not answer, and the operations that the API still lists."""


def read_facts(store: Store, home: Path) -> dict[str, SliceFacts]:
    """All facts that anybody has noted, by node id; raises the errors of the store."""
    found: dict[str, SliceFacts] = {}
    for text in read_texts(store, KIND, cache=LineCache.of(home, store.url)):
        collect_facts(decode_lines(text), found)
    return found


def note_survey(store: Store, home: Path, look: Look, now: Callable[[], float]) -> int:
    """Look at all slices there are and note what the ledger lacks; return how many facts.

    Raises the errors of the API and of the store.
    """
    nodes, unreachable, operations = look()
    known = read_facts(store, home)
    if not (nodes or operations or known):
        return 0
    now_s = now() + clock_offset_s(store, observer_id(home), now)
    survey = SliceSurvey(now_s, nodes, operations, unreachable=unreachable)
    return note_facts(store, home, new_facts(survey, known), now_s)


def note_facts(store: Store, home: Path, facts: Iterable[Mapping[str, Any]], now_s: float) -> int:
    """Note facts under the day of each; return how many were new. Raises the store's errors.

    A fact without a moment of its own belongs to the day of `now_s`.
    """
    by_day: dict[str, list[Mapping[str, Any]]] = {}
    for fact in facts:
        by_day.setdefault(day_of(float(fact.get("at_s", now_s))), []).append(fact)
    if not by_day:
        return 0
    cache, observer = LineCache.of(home, store.url), observer_id(home)
    return sum(
        add_lines(store, KIND, observer, day, lines, cache=cache, prune=prune_facts)
        for day, lines in sorted(by_day.items())
    )
