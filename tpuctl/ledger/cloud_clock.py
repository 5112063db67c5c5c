"""How far the clock of this machine is from that of the cloud, by the time of an object."""

from __future__ import annotations

import json
from collections.abc import Callable

from tpuctl.errors import PreconditionError, TransientError
from tpuctl.ledger.dated_lines import LEDGER
from tpuctl.store import Store

_TRIES = 3


def clock_offset_s(store: Store, observer: str, now: Callable[[], float]) -> float:
    """Seconds to add to `now` for the time of the cloud: one small object is written.

    Raises the errors of the store.
    """
    key = f"{LEDGER}clocks/{observer}"
    for _ in range(_TRIES):
        found = store.head(key)
        began_s = now()
        try:
            entry = store.put_if_generation(
                key, json.dumps({"local_s": began_s}).encode(), found.generation if found else 0
            )
        except PreconditionError:
            continue  # another process of the same observer
        return entry.updated_s - (began_s + now()) / 2
    raise TransientError("the clock of the bucket cannot be read", hint="run the command again")
