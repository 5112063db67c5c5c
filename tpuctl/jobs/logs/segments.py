"""Logs as they lie in the bucket: segments named by offset, read in ranges, merged by time."""

import heapq
import re
from collections.abc import Iterable, Iterator

from tpuctl.errors import NotFoundError
from tpuctl.jobs.logs.log_lines import LineAssembler
from tpuctl.jobs.record.record_store import job_directory
from tpuctl.models.job_log import LogFilter, LogLine
from tpuctl.store import Entry, Store

LogSource = tuple[int, int]
"""Attempt and worker."""
SEGMENT = re.compile(r"a(\d{1,6})/w(\d{1,6})/\d{12}", re.ASCII)
RANGE_BYTES = 1024 * 1024
MAX_CLOCK_SKEW_S = 60.0
"""How far the clocks of a worker and of the bucket may be apart."""


def sources(store: Store, job_id: str, attempt: int | None = None) -> dict[LogSource, list[Entry]]:
    """Every worker of every attempt, or of one, that has a log, with its segments in order."""
    prefix = f"{job_directory(job_id)}/logs/"
    part = prefix if attempt is None else f"{prefix}a{attempt}/"
    found: dict[LogSource, list[Entry]] = {}
    for entry in store.list(part):
        if parts := SEGMENT.fullmatch(entry.key.removeprefix(prefix)):  # else it is somebody else's
            found.setdefault((int(parts[1]), int(parts[2])), []).append(entry)
    return {source: sorted(found[source], key=start_of) for source in sorted(found)}


def lines(
    store: Store,
    job_id: str,
    wanted: LogFilter,
    attempt: int | None = None,
    logs: dict[LogSource, LineAssembler] | None = None,
) -> Iterator[LogLine]:
    """The log lines in the bucket, merged by time, each worker's beyond what `logs` has taken.

    An attempt's lines come before the next attempt's. Only sources are chosen by the filter, and
    segments that are too old for it are not read.
    """
    found = sources(store, job_id, attempt)
    known = {} if logs is None else logs
    for number in sorted({number for number, _ in found}):
        mine = [source for source in found if source[0] == number and wanted.has(source)]
        for source in mine:
            known.setdefault(source, LineAssembler(*source))
        merging = [_lines(store, found[source], known[source], wanted.since_s) for source in mine]
        yield from heapq.merge(*merging, key=lambda line: line.time_s)


def pieces(store: Store, entries: Iterable[Entry], start: int) -> Iterator[tuple[int, bytes]]:
    """Ranges of the log from an offset on, each with its offset; overlaps come once."""
    for entry in entries:
        first = start_of(entry)
        end = first + entry.size_bytes
        while start < end:
            start = max(start, first)
            until = min(end, start + RANGE_BYTES)
            try:
                data = store.get_range(
                    entry.key, start - first, until - first, generation=entry.generation
                )
            except NotFoundError:
                break  # cleaned up since it was listed
            yield start, data
            start = until


def tail_lines(store: Store, entries: Iterable[Entry], most_bytes: int) -> Iterator[LogLine]:
    """The whole lines in the last so many bytes of one worker's log."""
    segments = list(entries)
    end = max((start_of(entry) + entry.size_bytes for entry in segments), default=0)
    log = LineAssembler(0, 0, end=max(0, end - most_bytes))
    for offset, data in pieces(store, segments, log.end):
        yield from log.take(offset, data)


def _lines(
    store: Store, entries: list[Entry], log: LineAssembler, since_s: float
) -> Iterator[LogLine]:
    for entry in entries:
        end = start_of(entry) + entry.size_bytes
        if entry.updated_s + MAX_CLOCK_SKEW_S < since_s and end > log.end:
            log.skip(end)
    for offset, data in pieces(store, entries, log.end):
        yield from log.take(offset, data)


def start_of(entry: Entry) -> int:
    """The offset of a segment's first byte."""
    return int(entry.key.rpartition("/")[2])
