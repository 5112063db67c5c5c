"""Streaming decompression of gzip in bounded memory."""

import asyncio
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Iterator

from localsim.cloud.objects.storage_model import invalid

MAGIC = b"\x1f\x8b"
PIECE_BYTES = 256 * 1024
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


class _Gunzip:
    """A decompressor that is fed chunks and returns bounded pieces."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP_WINDOW)
        self._is_empty = True

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The decompressed bytes of the next chunk, piece by piece; raises zlib.error."""
        self._is_empty = self._is_empty and not data
        piece = b""
        while data or len(piece) == PIECE_BYTES:  # zlib may hold more than it was asked for
            if self._member.eof:
                if not data:
                    return
                self._member = zlib.decompressobj(_GZIP_WINDOW)  # members follow each other
            piece = self._member.decompress(data, PIECE_BYTES)
            yield piece
            data = self._member.unconsumed_tail or self._member.unused_data

    def finish(self) -> None:
        """Raise zlib.error when the compressed bytes end too soon."""
        if not (self._member.eof or self._is_empty):
            raise zlib.error("it ends too soon")


async def gunzip_chunks(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """The decompressed bytes; raises StorageError 400 for bytes that are no gzip."""
    gunzip = _Gunzip()
    try:
        async for chunk in chunks:
            pieces = gunzip.feed(chunk)
            while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
                yield piece
        gunzip.finish()
    except zlib.error as error:
        raise invalid(f"Malformed gzip body: {error}") from None
