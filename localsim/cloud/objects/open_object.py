"""An object that is being read: its bytes stay, whatever becomes of it meanwhile."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from localsim.cloud.objects.files.body_directory import BodyDirectory
from localsim.cloud.objects.storage_model import StoredObject


@dataclass(frozen=True, slots=True)
class BodyPiece:
    """`size_bytes` from `start` of a file, or of `data` where there is no file."""

    file: BinaryIO | None
    data: bytes
    start: int
    size_bytes: int


class OpenObject:
    """A generation whose files are held until it is closed."""

    def __init__(self, stored: StoredObject, data: bytes, bodies: BodyDirectory) -> None:
        """`data` is the body of an object without files."""
        self.stored = stored
        self._data = data
        self._bodies = bodies

    def pieces(self, start: int = 0, end: int | None = None) -> Iterator[BodyPiece]:
        """The bytes from `start` up to, not including, `end`; a file is open for its turn only."""
        end = self.stored.size_bytes if end is None else end
        if not self.stored.body_files:
            yield BodyPiece(None, self._data, start, end - start)
            return
        offset = 0
        for name in self.stored.body_files:
            if offset >= end:
                return
            size_bytes = self._bodies.size_bytes(name)
            first, last = max(start - offset, 0), min(end - offset, size_bytes)
            if first < last:
                with self._bodies.open(name) as file:
                    yield BodyPiece(file, b"", first, last - first)
            offset += size_bytes

    def read(self, start: int = 0, end: int | None = None) -> bytes:
        """The same bytes at once: only for small objects."""
        return b"".join(_bytes_of(piece) for piece in self.pieces(start, end))


def _bytes_of(piece: BodyPiece) -> bytes:
    if piece.file is None:
        return piece.data[piece.start : piece.start + piece.size_bytes]
    piece.file.seek(piece.start)
    return piece.file.read(piece.size_bytes)
