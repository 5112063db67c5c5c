"""Standard input into a bucket, and an object to standard output: never a part, little memory."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import BinaryIO

import google_crc32c

from tpuctl.errors import (
    IntegrityError,
    LocalIOError,
    NotFoundError,
    TpuctlError,
)
from tpuctl.operations.stage.plan.names import PARTS_PREFIX
from tpuctl.operations.stage.transfer import part_layout as stage_parts
from tpuctl.operations.stage.transfer.leftovers import Leftovers, error_of_object
from tpuctl.store.gcs.bulk import MAX_COMPOSED, BulkBucket, ObjectInfo

PART_BYTES = 16 * 1024 * 1024
PARTS_AT_ONCE = 4
BLOCK_BYTES = 1024 * 1024


def push_stream(
    source: BinaryIO,
    bulk: BulkBucket,
    key: str,
    warn: Callable[[str], None],
) -> ObjectInfo:
    """Write all that a stream yields, as one object that appears whole or not at all.

    Replaces the generation that is there at the beginning. Raises PreconditionError when another
    one appears meanwhile. `warn` gets the text about parts that could not be removed.
    """
    leftovers = Leftovers(bulk)
    before = bulk.head(key)
    generation = before.generation if before else 0
    first = _read_full(source, PART_BYTES)
    if len(first) < PART_BYTES:
        _put(bulk, key, first, generation)
    elif stage_parts.parts_are_free(bulk):
        _push_in_parts(source, first, leftovers, key, generation)
    else:
        _push_spooled(source, first, bulk, key, generation)
    stored = bulk.head(key)
    if stored is None:
        raise NotFoundError(f"{bulk.url}/{key} was written, and is gone")
    for notice in leftovers.notices():
        warn(notice.text)
    return stored


def pull_stream(
    bulk: BulkBucket,
    entry: ObjectInfo,
    write: Callable[[bytes], object],
    advance: Callable[[int], None],
) -> None:
    """Give the bytes of an object to `write`, in order. IntegrityError at the end.

    A request that is interrupted is continued where it ended.
    """
    checksum = 0

    def take(block: bytes) -> None:
        nonlocal checksum
        try:
            write(block)
        except OSError as error:
            raise _UnwritableError(error) from error
        checksum = google_crc32c.extend(checksum, block)
        advance(len(block))

    try:
        bulk.download(entry.key, entry.generation, 0, entry.size_bytes, take)
    except _UnwritableError as stop:
        if isinstance(stop.error, BrokenPipeError):  # who reads it has seen enough
            raise stop.error from None
        why = stop.error.strerror
        raise LocalIOError(f"cannot write to standard output: {why}") from stop.error
    if checksum != entry.crc32c:
        raise IntegrityError(
            f"{bulk.url}/{entry.key}: the bytes received are not the bytes stored",
            hint="throw away what was written to the stream",
        )


class _UnwritableError(Exception):
    """The output cannot be written: a retry of the download would not help."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


def stored_object(bulk: BulkBucket, key: str) -> ObjectInfo:
    """Look up the object of that name. Raises NotFoundError."""
    entry = bulk.head(key) if key else None
    if entry is None:
        raise NotFoundError(f"there is no object {bulk.url}/{key}", hint="run: tpuctl data list")
    return entry


def _push_in_parts(
    source: BinaryIO,
    first: bytes,
    leftovers: Leftovers,
    key: str,
    generation: int,
) -> None:
    """Send a stream as parts, a few at once, compose them, and delete them whatever happens."""
    bulk = leftovers.bulk
    prefix = f"{PARTS_PREFIX}stream-{uuid.uuid4().hex}/"
    written: list[ObjectInfo] = []
    try:
        with ThreadPoolExecutor(PARTS_AT_ONCE) as pool:
            running: list[Future[ObjectInfo]] = []
            for number, block in enumerate(_blocks(source, first)):
                running.append(pool.submit(_put, bulk, f"{prefix}{number:08d}", block, 0))
                if len(running) == PARTS_AT_ONCE:
                    written.append(running.pop(0).result())
            written += [upload.result() for upload in running]
        made = list(written)
        _compose(bulk, key, made, generation, prefix)
    except TpuctlError as error:
        raise error_of_object(error, prefix, key) from error.__cause__
    finally:
        with suppress(TpuctlError):  # rubbish, and named so: a later push removes it
            for part in bulk.list(prefix):
                leftovers.remove(part)


def _compose(
    bulk: BulkBucket, key: str, parts: Sequence[ObjectInfo], generation: int, prefix: str
) -> None:
    """Compose parts to one object, through objects of 32 parts each when there are more."""
    level = 0
    while len(parts) > MAX_COMPOSED:
        level += 1
        groups = [parts[at : at + MAX_COMPOSED] for at in range(0, len(parts), MAX_COMPOSED)]
        parts = [
            stage_parts.join_parts(bulk, f"{prefix}level{level}-{number:08d}", group, 0)
            for number, group in enumerate(groups)
        ]
    stage_parts.join_parts(bulk, key, parts, generation)


def _push_spooled(
    source: BinaryIO,
    first: bytes,
    bulk: BulkBucket,
    key: str,
    generation: int,
) -> None:
    """Write a stream to a temporary file, then send that in one request.

    This is for buckets where parts would be kept or charged for.
    """
    with tempfile.TemporaryFile() as file:
        checksum = size_bytes = 0
        for block in _blocks(source, first):
            file.write(block)
            checksum, size_bytes = google_crc32c.extend(checksum, block), size_bytes + len(block)

        def pieces() -> Iterator[bytes]:
            file.seek(0)
            while block := file.read(BLOCK_BYTES):
                yield block

        bulk.upload(key, pieces, size_bytes, checksum, generation=generation)


def _put(bulk: BulkBucket, key: str, data: bytes, generation: int) -> ObjectInfo:
    checksum = google_crc32c.value(data)
    return bulk.upload(key, lambda: [data], len(data), checksum, generation=generation)


def _blocks(source: BinaryIO, first: bytes) -> Iterator[bytes]:
    yield first
    while block := _read_full(source, PART_BYTES):
        yield block


def _read_full(source: BinaryIO, size_bytes: int) -> bytes:
    """Read exactly so many bytes, fewer only at the end of the stream. Raises LocalIOError."""
    pieces = []
    try:
        while size_bytes and (piece := source.read(min(BLOCK_BYTES, size_bytes))):
            pieces.append(piece)
            size_bytes -= len(piece)
    except OSError as error:
        raise LocalIOError(f"cannot read standard input: {error.strerror}") from error
    return b"".join(pieces)
