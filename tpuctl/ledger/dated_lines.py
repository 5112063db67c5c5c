"""Lines about the days, in a bucket, written by many observers and read as one set.

The object `tpuctl/ledger/KIND/YYYY-MM-DD/OBSERVER.jsonl` has what one observer noted about that day
(UTC), a JSON object in each line. A line is a fact: it is never changed, and who reads it twice, or
from two observers, has read it once. So nobody waits for anybody, and nothing is counted twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tpuctl.checkpoint.parallel import parallel_map
from tpuctl.errors import NotFoundError, PreconditionError
from tpuctl.store import Entry, Store

LEDGER = "tpuctl/ledger/"
READS_AT_ONCE = 16
WRITE_TRIES = 10

Line = Mapping[str, Any]


def add_lines(store: Store, kind: str, observer: str, day: str, lines: Iterable[Line]) -> int:
    """Add lines to what an observer noted about a day; return how many were new.

    Processes of one observer may add at the same time. Raises PreconditionError when they do so ten
    times in a row, and the errors of the store.
    """
    added = {_encode(line) for line in lines}
    key = f"{LEDGER}{kind}/{day}/{observer}.jsonl"
    for attempt in range(WRITE_TRIES):
        entry = store.head(key) if added else None
        known = set(_texts(store, entry)) if entry else set()
        if added <= known:
            return 0
        body = "".join(f"{text}\n" for text in sorted(known | added)).encode()
        try:
            store.put_if_generation(key, body, entry.generation if entry else 0)
        except PreconditionError:
            if attempt == WRITE_TRIES - 1:
                raise
            continue
        return len(added - known)
    return 0


def read_lines(store: Store, kind: str, since_s: float, until_s: float) -> list[dict[str, Any]]:
    """The lines about the days from `since_s` to `until_s` (seconds since 1970), each once.

    A line that this version cannot read as a JSON object is left out: a newer one may have written
    it.
    """
    days = set(days_between(since_s, until_s))
    prefix = f"{LEDGER}{kind}/"
    entries = [
        entry
        for entry in store.list(prefix)
        if entry.key.removeprefix(prefix).partition("/")[0] in days
    ]
    found = parallel_map(lambda entry: list(_texts(store, entry)), entries, threads=READS_AT_ONCE)
    texts = dict.fromkeys(text for each in found for text in each)
    return [line for text in texts if (line := _decode(text)) is not None]


def day_of(moment_s: float) -> str:
    """The day (UTC) of a moment in seconds since 1970, as YYYY-MM-DD."""
    return datetime.fromtimestamp(moment_s, UTC).date().isoformat()


def days_between(since_s: float, until_s: float) -> Iterator[str]:
    """The days (UTC) that a time touches, as YYYY-MM-DD."""
    day = datetime.fromtimestamp(since_s, UTC).date()
    last = datetime.fromtimestamp(until_s, UTC).date()
    while day <= last:
        yield day.isoformat()
        day += timedelta(days=1)


def _texts(store: Store, entry: Entry) -> list[str]:
    try:
        return store.get_range(entry.key).decode("utf-8", "replace").splitlines()
    except NotFoundError:
        return []


def _encode(line: Line) -> str:
    return json.dumps(line, sort_keys=True, separators=(",", ":"))


def _decode(text: str) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
    except ValueError:
        return None
    return line if isinstance(line, dict) else None
