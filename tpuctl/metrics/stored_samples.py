"""The samples of a job as they lie in its bucket: packed, by attempt and worker."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tpuctl import packed_samples
from tpuctl.errors import NotFoundError
from tpuctl.metrics.samples import Sample, WorkerSamples, merge
from tpuctl.packed_samples import PackedSamplesError
from tpuctl.store import Entry, Store

PART = re.compile(r"a(\d{1,6})/w(\d{1,6})/(\d{15})", re.ASCII)
READS_AT_ONCE = 32


@dataclass(slots=True)
class StoredSamples:
    """What was read of a job's samples, and the names of the objects that make no sense."""

    series: list[WorkerSamples] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)


def read_stored(
    store: Store, prefix: str, since_s: float = 0.0, attempt: int | None = None
) -> StoredSamples:
    """Read the samples below `metrics/` of a job, or of one attempt.

    Objects with older samples alone are left out.
    """
    wanted = list(_newer(_parts(store, prefix, attempt), since_s))
    found = StoredSamples()

    def read(part: tuple[int, int, Entry]) -> WorkerSamples | None:
        attempt, worker_id, entry = part
        try:
            rows = packed_samples.unpack(store.get_range(entry.key, generation=entry.generation))
        except NotFoundError:
            return None  # cleaned up since it was listed
        except PackedSamplesError:
            found.damaged.append(entry.key)
            return None
        return WorkerSamples(attempt, worker_id, [Sample(**row) for row in rows])

    with ThreadPoolExecutor(READS_AT_ONCE) as pool:
        found.series = merge(each for each in pool.map(read, wanted) if each is not None)
    return found


def _parts(
    store: Store, prefix: str, attempt: int | None
) -> dict[tuple[int, int], list[tuple[float, Entry]]]:
    """The objects of every worker of every attempt, each with the time of its first sample."""
    found: dict[tuple[int, int], list[tuple[float, Entry]]] = {}
    for entry in store.list(prefix if attempt is None else f"{prefix}a{attempt}/"):
        if parts := PART.fullmatch(entry.key.removeprefix(prefix)):  # else it is somebody else's
            source = int(parts[1]), int(parts[2])
            found.setdefault(source, []).append((int(parts[3]) / 1000, entry))
    return found


def _newer(
    parts: dict[tuple[int, int], list[tuple[float, Entry]]], since_s: float
) -> Iterator[tuple[int, int, Entry]]:
    """The objects that may have samples from a time on: one ends before the next but one begins.

    The next may have been saved by a supervisor while this one's agent still had its samples.
    """
    for source, entries in parts.items():
        entries.sort(key=lambda each: each[0])
        after = [first_s for first_s, _ in entries[2:]]
        for index, (_, entry) in enumerate(entries):
            if index >= len(after) or after[index] > since_s:
                yield (*source, entry)
