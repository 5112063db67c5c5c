"""Logs as they lie in the bucket: segments named by offset, joined, and merged by time."""

import heapq
from collections.abc import Iterable, Iterator

from tpuctl.jobs.record import directory
from tpuctl.models.job import LogLine
from tpuctl.store import Entry, Store

Source = tuple[int, int]
"""Attempt and worker."""


def sources(store: Store, job_id: str) -> dict[Source, list[Entry]]:
    """Every worker of every attempt that has a log, with its segments in order."""
    prefix = f"{directory(job_id)}/logs/"
    found: dict[Source, list[Entry]] = {}
    for entry in store.list(prefix):
        attempt, worker, _ = entry.key.removeprefix(prefix).split("/")
        found.setdefault((int(attempt[1:]), int(worker[1:])), []).append(entry)
    return {source: sorted(found[source], key=_start) for source in sorted(found)}


def lines(store: Store, job_id: str, start: dict[Source, int]) -> Iterator[LogLine]:
    """The log lines in the bucket, merged by time, each worker's from its given offset on.

    `start` holds the wanted sources, and is moved past what was read. An attempt's lines come
    before the next attempt's.
    """
    found = sources(store, job_id)
    for attempt in sorted({attempt for attempt, _ in start}):
        merging = []
        for source in sorted(start):
            if source[0] == attempt and source in found:
                data, end = joined(store, found[source], start[source])
                whole = data[: data.rfind(b"\n") + 1]
                start[source] = end - (len(data) - len(whole))
                merging.append(list(parsed(source, whole.splitlines())))
        yield from heapq.merge(*merging, key=lambda line: line.time_s)


def joined(store: Store, entries: Iterable[Entry], start: int) -> tuple[bytes, int]:
    """The bytes from an offset on and where they end; overlaps count once, gaps are left out."""
    data, end = bytearray(), start
    for entry in entries:
        first = _start(entry)
        if first + entry.size_bytes <= end:
            continue
        data += store.get_range(entry.key, max(0, end - first), generation=entry.generation)
        end = first + entry.size_bytes
    return bytes(data), end


def parsed(source: Source, stamped: Iterable[bytes]) -> Iterator[LogLine]:
    """Log lines of `<epoch seconds> <text>`."""
    attempt, worker_id = source
    for line in stamped:
        stamp, _, text = line.partition(b" ")
        try:
            time_s = float(stamp)
        except ValueError:
            continue  # the first line after a gap may be cut
        yield LogLine(attempt, worker_id, time_s, text.decode("utf-8", "replace"))


def _start(entry: Entry) -> int:
    return int(entry.key.rpartition("/")[2])
