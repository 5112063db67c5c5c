"""How far the clock of this machine is from that of the cloud, by the time of an object."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tpuctl.errors import PreconditionError, TransientError
from tpuctl.ledger.dated_lines import LEDGER
from tpuctl.ledger.line_cache import LineCache, keep_text
from tpuctl.ledger.observer import observer_id
from tpuctl.store import Store

_TRIES = 3


def measure_offset_s(store: Store, home: Path, now: Callable[[], float]) -> float:
    """Seconds to add to `now` for the time of the cloud: one small object is written.

    They are kept for `known_offset_s`. Raises the errors of the store.
    """
    key = f"{LEDGER}clocks/{observer_id(home)}"
    for _ in range(_TRIES):
        found = store.head(key)
        began_s = now()
        body = json.dumps({"local_s": began_s}).encode()
        try:
            entry = store.put_if_generation(key, body, found.generation if found else 0)
        except PreconditionError:
            continue  # another process of the same observer
        offset_s = entry.updated_s - (began_s + now()) / 2
        keep_text(_path(store, home), repr(offset_s))
        return offset_s
    raise TransientError("the clock of the bucket cannot be read", hint="run the command again")


def known_offset_s(store: Store, home: Path) -> float:
    """What was measured last; 0 where nothing was."""
    try:
        return float(_path(store, home).read_text("ascii"))
    except (OSError, ValueError):
        return 0.0


def _path(store: Store, home: Path) -> Path:
    return LineCache.of(home, store.url).directory / "clock"
