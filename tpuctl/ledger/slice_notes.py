"""Notes facts about slices in the bucket, and reads those of everybody."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tpuctl.ledger.cloud_clock import measure_offset_s
from tpuctl.ledger.dated_lines import add_lines, day_of, decode_lines, entries_by_day, texts_of
from tpuctl.ledger.line_cache import LineCache
from tpuctl.ledger.observer import observer_id
from tpuctl.ledger.settled_lives import (
    SliceLedger,
    digest_of,
    keep_settled,
    load_settled,
    settle,
)
from tpuctl.ledger.slice_facts import KIND, SliceFacts, collect_facts, facts_as_lines, prune_facts
from tpuctl.ledger.slice_survey import SliceSurvey, new_facts
from tpuctl.models.node import Node
from tpuctl.models.operation import Operation
from tpuctl.store import Entry, Store

Look = Callable[[], tuple[Sequence[Node], Collection[str], Sequence[Operation]]]
"""All nodes, the zones that did not answer, and the operations that the API still lists."""


def read_ledger(store: Store, home: Path) -> SliceLedger:
    """All that anybody has noted; raises the errors of the store.

    Of the days that are over, those before the newest that anybody has noted anything about, what
    was read before is kept on this machine.
    """
    cache = LineCache.of(home, store.url)
    entries = list(entries_by_day(store, KIND))
    newest = max((day for day, _ in entries), default="")
    over = [entry for day, entry in entries if day < newest]
    current = _collected(store, (entry for day, entry in entries if day == newest), cache)
    digest = digest_of(over)
    kept = load_settled(cache.directory, digest)
    if kept is None or not kept.settled.keys().isdisjoint(current):
        kept = settle(_collected(store, over, cache), current)
        keep_settled(cache.directory, digest, kept)
    lines = [line for facts in current.values() for line in facts_as_lines(facts)]
    return SliceLedger(collect_facts(lines, kept.known), kept.settled)


def _collected(store: Store, entries: Iterable[Entry], cache: LineCache) -> dict[str, SliceFacts]:
    found: dict[str, SliceFacts] = {}
    for text in texts_of(store, entries, cache=cache):
        collect_facts(decode_lines(text), found)
    return found


def note_survey(store: Store, home: Path, look: Look, now: Callable[[], float]) -> int:
    """Look at all slices there are and note what the ledger lacks; return how many facts.

    Raises the errors of the API and of the store.
    """
    nodes, unreachable, operations = look()
    ledger = read_ledger(store, home)
    if not (nodes or operations or ledger.known):
        return 0
    now_s = now() + measure_offset_s(store, home, now)
    survey = SliceSurvey(now_s, nodes, operations, unreachable=unreachable)
    told = [fact for fact in new_facts(survey, ledger.known) if fact["slice"] not in ledger.settled]
    return note_facts(store, home, told, now_s)


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
