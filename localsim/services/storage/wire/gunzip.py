"""Streaming decompression of gzip in bounded memory."""

import asyncio
import zlib
from collections.abc import AsyncIterable, AsyncIterator

from localsim.rules.objects.storage_model import invalid

MAGIC = b"\x1f\x8b"
PIECE_BYTES = 256 * 1024
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


async def gunzip_chunks(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """The decompressed bytes; raises StorageError 400 for bytes that are not gzip."""
    member = zlib.decompressobj(_GZIP_WINDOW)
    is_empty = True
    try:
        async for data in chunks:
            is_empty = is_empty and not data
            piece, rest = b"", data
            while rest or len(piece) == PIECE_BYTES:  # zlib may hold more than it was asked for
                if member.eof:
                    if not rest:
                        break
                    member = zlib.decompressobj(_GZIP_WINDOW)  # members follow each other
                piece = await asyncio.to_thread(member.decompress, rest, PIECE_BYTES)
                yield piece
                rest = member.unconsumed_tail or member.unused_data
        if not (member.eof or is_empty):
            raise zlib.error("it ends too soon")
    except zlib.error as error:
        raise invalid(f"Malformed gzip body: {error}") from None
