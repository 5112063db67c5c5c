"""A worker's part of a step: its files, several at once, then its done record."""

from __future__ import annotations

import base64
import time
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from tpuctl.checkpoint.format import layout, shard_file
from tpuctl.checkpoint.format.commit_schema import BLOCK_BYTES, DoneRecord, Part, StoredObject
from tpuctl.checkpoint.format.manifest import encode_done, tree_digest
from tpuctl.checkpoint.parallel import parallel_map
from tpuctl.checkpoint.worker_run import SHA_256, WorkerRun
from tpuctl.checkpoint.write.snapshot import Snapshot, SnapshotFile
from tpuctl.errors import ConflictError, IntegrityError, NotFoundError, PreconditionError
from tpuctl.store import Buffers

IN_FLIGHT = 4
"""So many files are sent at once."""


@dataclass
class SaveRetryState:
    """What this process has put of a step: a second try goes beside it, not over it.

    A COMMIT whose outcome is not known may still come, and the files that it names must be there.
    """

    step: int = -1
    round: int = 0
    is_open: bool = False
    """Whether it is not known to have succeeded."""
    next_file: int = 0
    done: bytes = b""
    done_generation: int = 0

    def begin_again(self, round_: int) -> None:
        """Begin another round of the same step."""
        self.round, self.is_open = round_, True

    def take_numbers(self, count: int) -> range:
        """Take `count` file numbers that were never used."""
        self.next_file += count
        return range(self.next_file - count, self.next_file)


def milliseconds_since(started_s: float) -> int:
    """Whole milliseconds since `started_s`, a value of time.monotonic."""
    return round((time.monotonic() - started_s) * 1000)


def write_parts(run: WorkerRun, snapshot: Snapshot, tries: SaveRetryState) -> DoneRecord:
    """Put this worker's files, then its done record; ConflictError when another is this worker."""

    save = run.new_save_id()

    def put(numbered: tuple[int, SnapshotFile]) -> WrittenFile:
        number, file = numbered
        key = layout.shard_key(snapshot.step, run.fence, run.worker_id, run.worker_count, number)
        return _put_file(run, key, file, save)

    files = snapshot.files
    numbered = list(zip(tries.take_numbers(len(files)), files, strict=True))
    written = parallel_map(put, numbered, threads=IN_FLIGHT)
    blocked_ms = snapshot.blocked_ms
    done = DoneRecord(
        worker=run.worker_id,
        worker_count=run.worker_count,
        save=save,
        round=tries.round,
        digest=tree_digest(snapshot.structure, snapshot.leaves),
        blocked_ms=milliseconds_since(snapshot.called_s) if blocked_ms is None else blocked_ms,
        objects=tuple(each.stored for each in written),
        parts=tuple(
            chain.from_iterable(
                _parts(number, file, each.header_bytes)
                for number, (file, each) in enumerate(zip(files, written, strict=True))
            )
        ),
    )
    _put_done(run, snapshot.step, encode_done(done), tries)
    return done


class WrittenFile(NamedTuple):
    """A file that is in the store, and the size of its header."""

    stored: StoredObject
    header_bytes: int


def _put_file(run: WorkerRun, key: str, file: SnapshotFile, save: str) -> WrittenFile:
    header = file.header(shard_file.identity(save, key))
    views = [memoryview(header), *(stored.array.data for stored in file.stored)]
    source = Buffers(views, BLOCK_BYTES, has_digests=run.digest == SHA_256)
    try:
        entry = run.store.put_if_absent(key, source)
    except PreconditionError as error:
        raise _worker_conflict_error(run) from error
    blocks = b"".join(value.to_bytes(4, "big") for value in source.block_values)
    spelled = base64.b64encode(blocks).decode("ascii")
    digests = base64.b64encode(b"".join(source.digests)).decode("ascii")
    stored = StoredObject(key, entry.size_bytes, entry.generation, entry.crc32c, spelled, digests)
    return WrittenFile(stored, len(header))


def _parts(number: int, file: SnapshotFile, start: int) -> list[tuple[int, Part]]:
    parts = []
    for stored in file.stored:
        parts.append((stored.leaf, Part(number, start, stored.tensor.box)))
        start += stored.tensor.size_bytes
    return parts


def _put_done(run: WorkerRun, step: int, data: bytes, tries: SaveRetryState) -> None:
    """Put it if absent, or over that of an earlier try, whose put may have gone unheard."""
    key = layout.done_key(step, run.fence, run.worker_id)
    earlier, tries.done = tries.done, data
    try:
        entry = run.store.put_if_generation(key, data, tries.done_generation)
    except PreconditionError as error:
        generation = _generation_of(run, key, earlier)
        if generation is None:
            raise _worker_conflict_error(run) from error
        entry = run.store.put_if_generation(key, data, generation)
    tries.done_generation = entry.generation


def _generation_of(run: WorkerRun, key: str, data: bytes) -> int | None:
    """The generation of an object if it has those bytes."""
    entry = run.store.head(key)
    try:
        if entry and run.store.get_range(key, generation=entry.generation) == data:
            return entry.generation
    except (NotFoundError, IntegrityError):
        pass
    return None


def _worker_conflict_error(run: WorkerRun) -> ConflictError:
    return ConflictError(
        f"another process is worker {run.worker_id} of the run with fence {run.fence}",
        hint="every worker of a run needs a number of its own (TPUCTL_WORKER_ID)",
    )
