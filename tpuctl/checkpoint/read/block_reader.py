"""Reads blocks of objects to where they belong, several at once, and checks their CRC-32C."""

from __future__ import annotations

import base64
import hashlib
import os
import threading
from collections import Counter
from collections.abc import Iterator, Sequence

import google_crc32c
import numpy as np

from tpuctl.checkpoint.format import shard_file
from tpuctl.checkpoint.format.commit_schema import Commit
from tpuctl.checkpoint.parallel import parallel_map
from tpuctl.checkpoint.read.ranges import ByteRange, Bytes, DirectRead, NeededBlock, PartOverlap
from tpuctl.errors import IntegrityError, NotFoundError
from tpuctl.store import Store
from tpuctl.store.crc32c_base64 import encode_crc32c
from tpuctl.store.crc32c_combine import combine_crc32c

_OF_BUCKET = min(32, max(8, 2 * (os.cpu_count() or 1)))
"""Each waits for its own request most of the time."""
_DIGEST_BYTES = 32
_OF_DISK = 2
"""While one waits for the disk the other one checks; with more a disk has to jump about."""
_TRIES = 2
"""Bytes damaged on the way are right the second time; those damaged at rest are not."""
_CHECKED_BYTES = 1024 * 1024
"""A checksum holds the interpreter: never for longer than that takes, some 50 us."""
_DIRECT_BYTES = 1024 * 1024
"""Fewer are read with what is beside them: a request for each would cost more than a copy."""


def reader_threads(store: Store) -> int:
    """The number of threads that read at once from this store."""
    return _OF_BUCKET if store.url.startswith("gs://") else _OF_DISK


class BlockReader:
    """Reads blocks of the objects of one COMMIT; any number of threads may use it."""

    def __init__(self, store: Store, commit: Commit) -> None:
        """Read nothing yet; `commit` names the objects and the CRC-32C of their blocks."""
        self._store = store
        self._commit = commit
        self._values = [
            np.frombuffer(base64.b64decode(stored.blocks), ">u4") for stored in commit.objects
        ]
        self._digests = [base64.b64decode(stored.digests) for stored in commit.objects]
        self._identities = [
            shard_file.identity_bytes(metadata) if metadata else b""
            for metadata in map(commit.identity, commit.objects)
        ]
        largest = max((stored.size_bytes for stored in commit.objects), default=0)
        self._aside_bytes = min(commit.block_bytes, largest)
        self._own = threading.local()

    def fill(self, blocks: Sequence[NeededBlock]) -> None:
        """Read and check blocks, and put their bytes in place; IntegrityError names the object."""
        parallel_map(self._fill, blocks, threads=reader_threads(self._store))

    def block(self, number: int, block: int) -> Bytes:
        """A checked block of object `number`, in memory that the thread's next call uses again."""
        span = self._span(number, block)
        aside = self._scratch_memory(span)
        self._read(number, block, [DirectRead(span, aside)])
        return aside

    def count(self, number: int) -> int:
        """The number of blocks of an object."""
        return len(self._values[number])

    def crc32c(self, number: int) -> str:
        """The CRC-32C of a whole object, joined from those of its blocks, in base64."""
        spans = [self._span(number, block) for block in range(self.count(number))]
        values = zip(self._values[number], spans, strict=True)
        return encode_crc32c(
            combine_crc32c((int(value), end - start) for value, (start, end) in values)
        )

    def range(self, number: int, start: int, end: int) -> bytes:
        """The bytes of object `number` from start up to, not including, end, checked."""
        size = self._commit.block_bytes
        found = bytearray()
        for block in range(start // size, -(-end // size)):
            first = block * size
            found += self.block(number, block)[max(0, start - first) : end - first].tobytes()
        return bytes(found)

    def _fill(self, block: NeededBlock) -> None:
        span = self._span(block.object, block.number)
        direct, others = _separate_direct(block.overlaps, span)
        aside = self._scratch_memory(span)
        self._read(block.object, block.number, list(_pieces(span, direct, aside)))
        for want in others:
            want.put(span.start, aside)

    def _read(self, number: int, block: int, pieces: Sequence[DirectRead]) -> None:
        stored = self._commit.objects[number]
        expected = int(self._values[number][block])
        wanted = self._digests[number][block * _DIGEST_BYTES : (block + 1) * _DIGEST_BYTES]
        for _ in range(_TRIES):
            value, digest = 0, hashlib.sha256()
            try:
                for (start, _end), memory in pieces:
                    self._store.read_into(
                        stored.path, start, memory.data, generation=stored.generation
                    )
                    value = _extend_crc(value, memory)
                    if wanted:
                        digest.update(memory.data)
            except NotFoundError as error:
                raise IntegrityError(f"{stored.path}: missing, or replaced") from error
            except IntegrityError:
                continue
            if value == expected and (not wanted or digest.digest() == wanted):
                if block == 0 and pieces:
                    self._check_identity(number, pieces[0].memory)
                return
        raise IntegrityError(f"{stored.path}: its bytes are not those that were committed")

    def _check_identity(self, number: int, first: Bytes) -> None:
        """Compare how a file begins with how it must; `first` are its first bytes."""
        identity = self._identities[number]
        begins = first[shard_file.LENGTH_BYTES :][: len(identity)].tobytes()
        if begins != identity[: len(begins)]:
            path = self._commit.objects[number].path
            raise IntegrityError(f"{path}: it is a file of another save, step, run or worker")

    def _span(self, number: int, block: int) -> ByteRange:
        size = self._commit.block_bytes
        return ByteRange(
            block * size, min((block + 1) * size, self._commit.objects[number].size_bytes)
        )

    def _scratch_memory(self, span: ByteRange) -> Bytes:
        if not hasattr(self._own, "memory"):
            # Memory that nothing is read to costs nothing.
            self._own.memory = np.empty(self._aside_bytes, np.uint8)
        memory: Bytes = self._own.memory[: span.end - span.start]
        return memory


def _extend_crc(value: int, memory: Bytes) -> int:
    for start in range(0, memory.size, _CHECKED_BYTES):
        value = google_crc32c.extend(value, memory[start : start + _CHECKED_BYTES])
    return value


def _separate_direct(
    wants: Sequence[PartOverlap], span: ByteRange
) -> tuple[list[DirectRead], list[PartOverlap]]:
    """What is read to where it belongs, in order; and who takes from what is read aside."""
    sharing = Counter(want.start for want in wants)
    direct, others = [], []
    for want in wants:
        found = want.direct() if sharing[want.start] == 1 else None
        clipped = None if found is None else _clip(found, span)
        if clipped is not None and clipped.memory.size >= _DIRECT_BYTES:
            direct.append(clipped)
        else:
            others.append(want)
    return sorted(direct, key=lambda each: each.span), others


def _clip(direct: DirectRead, span: ByteRange) -> DirectRead:
    start, end = max(direct.span.start, span.start), min(direct.span.end, span.end)
    first = start - direct.span.start
    return DirectRead(
        ByteRange(start, end), direct.memory[first : max(first, end - direct.span.start)]
    )


def _pieces(span: ByteRange, direct: Sequence[DirectRead], aside: Bytes) -> Iterator[DirectRead]:
    """The whole block in order: what goes to its place, and what is between, aside."""
    start = span.start
    for each in [*direct, DirectRead(ByteRange(span.end, span.end), aside[:0])]:
        if start < each.span.start:
            between = ByteRange(start, each.span.start)
            yield DirectRead(between, aside[start - span.start : each.span.start - span.start])
        if each.memory.size:
            yield each
        start = each.span.end
