"""The lives of deleted slices, in a file of this machine: days that are over are read once.

The file says which objects of the ledger it was made of. Where one of them has changed, or a newer
day has a fact about a slice of the file, it is made again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

from tpuctl.ledger.line_cache import keep_text
from tpuctl.ledger.slice_facts import (
    SliceFacts,
    collect_facts,
    facts_as_lines,
    is_deleted,
    life_of,
)
from tpuctl.models.money.slice_life import (
    BilledInterval,
    BillingEdge,
    SliceIdentity,
    SliceLife,
)
from tpuctl.store import Entry

FILE = "settled.json"
FORMAT = 1
"""Goes up when a life is made in another way."""


@dataclass(frozen=True, slots=True)
class SliceLedger:
    """What the ledger says: facts about slices that may be there, and lives of the deleted ones."""

    known: dict[str, SliceFacts] = field(default_factory=dict)
    settled: Mapping[str, SliceLife] = field(default_factory=dict)


def digest_of(entries: Iterable[Entry]) -> str:
    """What tells these generations of these objects from others."""
    text = "\n".join(f"{entry.key} {entry.generation}" for entry in entries)
    return hashlib.sha256(f"{FORMAT}\n{text}".encode()).hexdigest()


def load_settled(directory: Path, digest: str) -> SliceLedger | None:
    """What was kept of the objects with that digest; None where it is lost or of others."""
    try:
        document = json.loads((directory / FILE).read_text("utf-8"))
        if document["digest"] != digest:
            return None
        lives = {row[0][0]: _life(row) for row in document["lives"]}
        return SliceLedger(collect_facts(document["lines"]), lives)
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None


def settle(known: Mapping[str, SliceFacts], present: Iterable[str]) -> SliceLedger:
    """Take the deleted slices apart; about those of `present` there are newer facts."""
    kept = set(present)
    gone = {key for key, facts in known.items() if key not in kept and is_deleted(facts)}
    lives = {key: life_of(known[key], 0.0) for key in sorted(gone)}
    return SliceLedger({key: each for key, each in known.items() if key not in gone}, lives)


def keep_settled(directory: Path, digest: str, ledger: SliceLedger) -> None:
    """Keep it for the next time; what cannot be kept is made again."""
    document = {
        "digest": digest,
        "lives": [_row(life) for life in ledger.settled.values()],
        "lines": [line for facts in ledger.known.values() for line in facts_as_lines(facts)],
    }
    keep_text(directory / FILE, json.dumps(document, separators=(",", ":")))


def _row(life: SliceLife) -> list[Any]:
    intervals = [[*interval.begin, *interval.end] for interval in life.intervals]
    return [astuple(life.identity), intervals, [[at_s, dict(each)] for at_s, each in life.labels]]


def _life(row: Sequence[Any]) -> SliceLife:
    identity, intervals, labels = row
    return SliceLife(
        SliceIdentity(*identity),
        tuple(
            BilledInterval(BillingEdge(*edges[:3]), BillingEdge(*edges[3:])) for edges in intervals
        ),
        tuple((at_s, each) for at_s, each in labels),
        is_ended=True,
    )
