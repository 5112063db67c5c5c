"""Memory that is written as one object; its checksums are taken meanwhile."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import google_crc32c

from tpuctl.store.crc32c_base64 import encode_crc32c
from tpuctl.store.crc32c_combine import combine_crc32c

PIECE_BYTES = 256 * 1024
"""A piece is checksummed and then written: it is still in the processor's cache.

A checksum holds the interpreter: with four times as much a program that trains is slowed by more.
"""


class Buffers:
    """Views of memory that are one object together, and the CRC-32C of each of its blocks.

    The bytes must stay as they are until the object is written: they are never copied here.
    """

    def __init__(
        self, views: Sequence[memoryview], block_bytes: int, *, has_digests: bool = False
    ) -> None:
        """Views of bytes (format B), in order; blocks of `block_bytes`, the last one shorter.

        With `has_digests` the SHA-256 of each block is taken as well.
        """
        self._has_digests = has_digests
        self.digests: list[bytes] = []
        """The SHA-256 of each block, once the checksums are taken."""
        self._views = [view for view in views if view.nbytes]
        self._block_bytes = block_bytes
        self._values: list[int] = []
        self.size_bytes = sum(view.nbytes for view in self._views)

    def blocks(self) -> Iterator[memoryview]:
        """The bytes in pieces, again at each call.

        Whoever gets to the end first has taken the checksums on the way.
        """
        if self._values or not self.size_bytes:
            yield from (piece for piece, _ in self._pieces())
            return
        import numpy as np  # whoever has buffers of this size has imported it

        values, value = [], 0
        digests, digest = [], hashlib.sha256()
        for piece, ends_block in self._pieces():
            if self._has_digests:
                digest.update(piece)
            # It reads an array without a copy, and accepts no memoryview.
            value = google_crc32c.extend(value, np.frombuffer(piece, np.uint8))
            if ends_block:
                values.append(value)
                value = 0
                digests.append(digest.digest())
                digest = hashlib.sha256()
            yield piece
        self._values = values
        self.digests = digests if self._has_digests else []

    @property
    def block_values(self) -> list[int]:
        """The CRC-32C of each block; taken now unless `blocks` went to its end before."""
        if not self._values:
            for _ in self.blocks():
                pass
        return self._values

    @property
    def value(self) -> int:
        """The CRC-32C of all bytes."""
        last = self.size_bytes % self._block_bytes or self._block_bytes
        values = self.block_values
        sizes = [self._block_bytes] * (len(values) - 1) + [last]
        return combine_crc32c(zip(values, sizes, strict=False))

    @property
    def crc32c(self) -> str:
        """The CRC-32C of all bytes as Cloud Storage spells it."""
        return encode_crc32c(self.value)

    def _pieces(self) -> Iterator[tuple[memoryview, bool]]:
        """The pieces, each within one block, and whether it is the last one of its block."""
        left, in_block = self.size_bytes, self._block_bytes
        for view in self._views:
            start = 0
            while start < view.nbytes:
                size = min(PIECE_BYTES, in_block, view.nbytes - start)
                left -= size
                in_block -= size
                ends_block = not in_block or not left
                yield view[start : start + size], ends_block
                start += size
                in_block = in_block or self._block_bytes
