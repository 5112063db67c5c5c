"""Unpacking gzip as it streams by, in bounded memory and without holding up other requests."""

import asyncio
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Iterator

from localsim.cloud.objects.storage_model import invalid

MAGIC = b"\x1f\x8b"
PIECE_BYTES = 256 * 1024
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


class _Gunzip:
    """Fed chunk by chunk; what it gives back is never more than a piece at a time."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP_WINDOW)
        self._is_empty = True

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The plain bytes of the next compressed ones, piece by piece; raises zlib.error."""
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
        """Raises zlib.error when the compressed bytes end too soon."""
        if not (self._member.eof or self._is_empty):
            raise zlib.error("it ends too soon")


async def gunzip_chunks(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """The plain bytes of compressed ones; raises StorageError 400 for what is no gzip."""
    gunzip = _Gunzip()
    try:
        async for chunk in chunks:
            pieces = gunzip.feed(chunk)
            while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
                yield piece
        gunzip.finish()
    except zlib.error as error:
        raise invalid(f"Malformed gzip body: {error}") from None
