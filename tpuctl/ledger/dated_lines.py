"""Lines about the days, in a bucket, written by many observers and read as one set.

The object `tpuctl/ledger/KIND/YYYY-MM-DD/OBSERVER.jsonl` has what one observer noted about that day
(UTC), a JSON object in each line. A line is a fact: it is never changed, and who reads it twice, or
from two observers, has read it once. So nobody waits for anybody, and nothing is counted twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tpuctl.checkpoint.parallel import parallel_map
from tpuctl.errors import NotFoundError, PreconditionError
from tpuctl.ledger.line_cache import LineCache
from tpuctl.store import Entry, Store

LEDGER = "tpuctl/ledger/"
READS_AT_ONCE = 16
WRITE_TRIES = 10

Line = Mapping[str, Any]
Prune = Callable[[list[dict[str, Any]]], Iterable[Line]]
"""From all lines of an observer about a day to those that say the same with fewer."""


def add_lines(  # noqa: PLR0913 (what is added, and how)
    store: Store,
    kind: str,
    observer: str,
    day: str,
    lines: Iterable[Line],
    *,
    cache: LineCache | None = None,
    prune: Prune | None = None,
) -> int:
    """Add lines to what an observer noted about a day; return how many were new.

    With a `cache` that has what was there it is one request. Processes of one observer may add at
    the same time. Raises PreconditionError when they do so ten times in a row, and the errors of
    the store.
    """
    added = {_encode(line) for line in lines}
    key = f"{LEDGER}{kind}/{day}/{observer}.jsonl"
    kept = cache.newest(key) if cache and added else None
    for attempt in range(WRITE_TRIES if added else 0):
        generation, text = kept or _stored(store, key)
        kept = None
        known = set(text.splitlines())
        if added <= known:
            return 0
        body = "".join(f"{each}\n" for each in sorted(_pruned(known | added, prune)))
        try:
            entry = store.put_if_generation(key, body.encode(), generation)
        except PreconditionError:
            if attempt == WRITE_TRIES - 1:
                raise
            continue
        if cache:
            cache.keep(key, entry.generation, body)
        return len(added - known)
    return 0


def read_lines(
    store: Store, kind: str, since_s: float, until_s: float, *, cache: LineCache | None = None
) -> list[dict[str, Any]]:
    """The lines about the days from `since_s` to `until_s` (seconds since 1970), each once.

    A line that this version cannot read as a JSON object is left out: a newer one may have written
    it.
    """
    days = set(days_between(since_s, until_s))
    texts: dict[str, None] = {}
    for text in read_texts(store, kind, lambda day: day in days, cache=cache):
        texts.update(dict.fromkeys(text.splitlines()))
    return [line for text in texts if (line := _decode(text)) is not None]


def read_texts(
    store: Store,
    kind: str,
    is_wanted: Callable[[str], bool] = lambda _day: True,
    *,
    cache: LineCache | None = None,
) -> Iterator[str]:
    """What each observer noted about each of the days that are wanted, as it is stored."""
    entries = [entry for day, entry in entries_by_day(store, kind) if is_wanted(day)]
    yield from texts_of(store, entries, cache=cache)


def entries_by_day(store: Store, kind: str) -> Iterator[tuple[str, Entry]]:
    """Every object of a kind and the day that it is about, in the order of days."""
    prefix = f"{LEDGER}{kind}/"
    for entry in store.list(prefix):
        yield entry.key.removeprefix(prefix).partition("/")[0], entry


def texts_of(
    store: Store, entries: Iterable[Entry], *, cache: LineCache | None = None
) -> Iterator[str]:
    """The text of each of the objects, those that are kept here first."""
    unread = []
    for entry in entries:
        text = cache.text_of(entry.key, entry.generation) if cache else None
        if text is None:
            unread.append(entry)
        else:
            yield text
    yield from parallel_map(lambda entry: _read(store, entry, cache), unread, threads=READS_AT_ONCE)


def decode_lines(text: str) -> Iterator[dict[str, Any]]:
    """The lines of a text of the ledger."""
    try:
        found = json.loads(f"[{','.join(text.splitlines())}]")
        yield from (line for line in found if isinstance(line, dict))
    except ValueError:
        yield from filter(None, map(_decode, text.splitlines()))


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


def _stored(store: Store, key: str) -> tuple[int, str]:
    """The generation of an object and its text; 0 and nothing where there is none."""
    entry = store.head(key)
    return (entry.generation, _read(store, entry, None)) if entry else (0, "")


def _read(store: Store, entry: Entry, cache: LineCache | None) -> str:
    try:
        text = store.get_range(entry.key).decode("utf-8", "replace")
    except NotFoundError:
        return ""
    if cache:
        cache.keep(entry.key, entry.generation, text)
    return text


def _pruned(texts: set[str], prune: Prune | None) -> set[str]:
    if prune is None:
        return texts
    lines = {text: line for text in sorted(texts) if (line := _decode(text)) is not None}
    unread = texts - set(lines)
    return unread | {_encode(line) for line in prune(list(lines.values()))}


def _encode(line: Line) -> str:
    return json.dumps(line, sort_keys=True, separators=(",", ":"))


def _decode(text: str) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
    except ValueError:
        return None
    return line if isinstance(line, dict) else None
