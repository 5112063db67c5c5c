"""A log on the disk: files of bounded size, named by the offset of their first byte. Python 3.8.

What is safe in the bucket goes when newer lines come. What is not is kept up to a bound; then the
oldest gives way to a line that says so, at its offset.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

FILE_BYTES = 8 * 1024 * 1024
RETAINED_BYTES = 64 * 1024 * 1024
MAX_BYTES = 4 * 1024 * 1024 * 1024
BLOCK_BYTES = 256 * 1024
GAP_LINE = "tpuctl: %d bytes of the log were dropped here: the bucket did not take them in time\n"


class LogPart:
    """Bytes of the log, in a file or to upload: `end` is the offset after what they stand for."""

    def __init__(self, start: int, size_bytes: int, end: int) -> None:
        self.start = start
        self.size_bytes = size_bytes
        self.end = end

    @property
    def is_gap(self) -> bool:
        """Whether it is a line in the place of dropped bytes."""
        return self.end != self.start + self.size_bytes


class LogFiles:
    """The files of one log. One thread appends, another one uploads."""

    def __init__(self, directory: str) -> None:
        os.makedirs(directory, 0o700, exist_ok=True)
        self.directory = directory
        self.pieces = [LogPart(0, 0, 0)]
        self.file: int | None = None
        self.disk_bytes = 0
        self.safe_bytes = 0
        """Everything before this offset is in the bucket or dropped."""
        self.busy_bytes = 0
        """Everything before this offset is safe or being uploaded."""
        self.lock = threading.Lock()

    @property
    def size_bytes(self) -> int:
        """The offset of the next byte: how long the log is."""
        return self.pieces[-1].end

    def path(self, start: int) -> str:
        """Return the path of the file that begins at an offset."""
        return os.path.join(self.directory, f"{start:012d}")

    def append(self, data: bytes) -> None:
        """Write whole lines; raises OSError, and then nothing of them is there."""
        with self.lock:
            if self.pieces[-1].size_bytes >= FILE_BYTES:
                self.rotate()
            try:
                self.write(data)
            except OSError:
                self.remove_safe(0)
                self.write(data)

    def rotate(self) -> None:
        """Begin the next file, and remove or drop the oldest above the bounds."""
        if self.file is not None:
            os.close(self.file)
        self.file = None
        self.pieces.append(LogPart(self.size_bytes, 0, self.size_bytes))
        self.remove_safe(RETAINED_BYTES)
        while self.disk_bytes > MAX_BYTES and self.drop():
            pass

    def write(self, data: bytes) -> None:
        """Append to the newest file everything or, raising OSError, nothing."""
        piece = self.pieces[-1]
        if self.file is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self.file = os.open(self.path(piece.start), flags, 0o600)
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self.file, rest) :]
        except OSError:
            os.ftruncate(self.file, piece.size_bytes)
            raise
        piece.size_bytes += len(data)
        piece.end += len(data)
        self.disk_bytes += len(data)

    def remove_safe(self, kept_bytes: int) -> None:
        """Remove the oldest uploaded files while more than `kept_bytes` are on the disk."""
        while self.disk_bytes > kept_bytes and len(self.pieces) > 1:
            if self.pieces[0].end > self.safe_bytes:
                return
            self.remove(self.pieces.pop(0))

    def remove(self, piece: LogPart) -> None:
        """Remove one file; a reader that has it open reads on."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path(piece.start))
        self.disk_bytes -= piece.size_bytes

    def drop(self) -> bool:
        """Replace the oldest file that may be dropped by a line; False when there is none."""
        floor = max(self.safe_bytes, self.busy_bytes)
        whole = [
            index
            for index, piece in enumerate(self.pieces[:-1])
            if piece.end > floor and piece.start >= self.busy_bytes and not piece.is_gap
        ]
        if not whole:
            return False
        last = first = whole[0]
        if first and self.pieces[first - 1].is_gap and self.pieces[first - 1].start >= floor:
            first -= 1  # two gaps in a row are one
        gone = self.pieces[first : last + 1]
        start = max(gone[0].start, floor)
        self.pieces[first : last + 1] = [self.gap(gone, start, gone[-1].end)]
        return True

    def gap(self, gone: list[LogPart], start: int, end: int) -> LogPart:
        """Replace files by one line that says how many bytes are missing, dated as the oldest."""
        with open(self.path(gone[0].start), "rb") as file:
            stamp = file.read(32).partition(b" ")[0]
        line = stamp + b" " + (GAP_LINE % (end - start)).encode()
        new = f"{self.directory}.new"  # beside it: what is within is named by an offset
        with open(new, "wb") as file:
            file.write(line)
        for piece in gone:
            self.remove(piece)
        os.replace(new, self.path(start))
        self.disk_bytes += len(line)
        return LogPart(start, len(line), end)

    def next_span(self, most_bytes: int) -> LogPart | None:
        """Return what to upload, kept until `mark_uploaded` or `release_span`; None: nothing."""
        with self.lock:
            waiting = [piece for piece in self.pieces if piece.end > self.safe_bytes]
            if not waiting:
                return None
            span = waiting[0]
            if not span.is_gap:
                end = min([self.size_bytes, *(piece.start for piece in waiting if piece.is_gap)])
                limit = self.safe_bytes + most_bytes
                if end > limit:  # then to the end of a file: lines stay whole
                    end = max([piece.start for piece in waiting if piece.start <= limit])
                span = LogPart(self.safe_bytes, end - self.safe_bytes, end)
            self.busy_bytes = span.end
            return span

    def blocks(self, span: LogPart) -> Iterator[bytes]:
        """Return the bytes of a span in blocks; reading raises OSError."""
        with self.lock:
            pieces = [(piece.start, piece.size_bytes) for piece in self.pieces]
        return self.read(span, pieces)

    def read(self, span: LogPart, pieces: list[tuple[int, int]]) -> Iterator[bytes]:
        """Yield the bytes of a span from files of (start, size), without the lock."""
        at, end = span.start, span.start + span.size_bytes
        for start, size_bytes in pieces:
            if start <= at < min(end, start + size_bytes):
                with open(self.path(start), "rb", buffering=0) as file:
                    file.seek(at - start)
                    while at < min(end, start + size_bytes):
                        block = file.read(min(BLOCK_BYTES, end - at, start + size_bytes - at))
                        if not block:
                            raise OSError(f"{self.path(start)} is shorter than it was")
                        at += len(block)
                        yield block

    def mark_uploaded(self, end: int) -> None:
        """Note that the bucket has everything before that offset."""
        with self.lock:
            self.safe_bytes, self.busy_bytes = end, 0
            self.remove_safe(RETAINED_BYTES)

    def release_span(self) -> None:
        """Note that the span could not be uploaded."""
        with self.lock:
            self.busy_bytes = 0
