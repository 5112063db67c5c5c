"""Notes facts about slices in the bucket, and reads those of everybody."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tpuctl.ledger.dated_lines import add_lines, day_of, decode_lines, read_texts
from tpuctl.ledger.line_cache import LineCache
from tpuctl.ledger.observer import observer_id
from tpuctl.ledger.slice_facts import KIND, SliceFacts, collect_facts, prune_sightings
from tpuctl.store import Store


def read_facts(store: Store, home: Path) -> dict[str, SliceFacts]:
    """All facts that anybody has noted, by node id; raises the errors of the store."""
    found: dict[str, SliceFacts] = {}
    for text in read_texts(store, KIND, cache=LineCache.of(home, store.url)):
        collect_facts(decode_lines(text), found)
    return found


def note_facts(store: Store, home: Path, facts: Iterable[Mapping[str, Any]], now_s: float) -> int:
    """Note facts under the day of each; return how many were new. Raises the store's errors.

    A fact without a moment of its own belongs to the day of `now_s`.
    """
    by_day: dict[str, list[Mapping[str, Any]]] = {}
    for fact in facts:
        moment_s = fact.get("at_s") or fact.get("created_s") or now_s
        by_day.setdefault(day_of(float(moment_s)), []).append(fact)
    if not by_day:
        return 0
    cache, observer = LineCache.of(home, store.url), observer_id(home)
    return sum(
        add_lines(store, KIND, observer, day, lines, cache=cache, prune=prune_sightings)
        for day, lines in sorted(by_day.items())
    )
