"""The end of a worker's log that is not in the bucket yet, kept here in case the worker goes."""

from dataclasses import dataclass, field

from tpuctl.errors import PreconditionError
from tpuctl.store import Store

MAX_BYTES = 4 * 1024 * 1024
RECENT_BYTES = 16 * 1024
LAST_LINES = 20
LINE_CHARACTERS = 500


@dataclass(slots=True)
class LogTail:
    """Bytes from `start` on, as they came over the worker's stream."""

    start: int = 0
    data: bytearray = field(default_factory=bytearray)
    recent: bytes = b""
    """The newest bytes, whether they are safe or not."""

    @property
    def end(self) -> int:
        """The offset after the last byte."""
        return self.start + len(self.data)

    def add(self, offset: int, data: bytes) -> bytes:
        """Append what is new of a piece of log, and return that; the oldest bytes give way."""
        if offset > self.end:
            self.start = offset
            self.data.clear()
        new = data[max(0, self.end - offset) :]
        self.data += new
        self.recent = (self.recent + new)[-RECENT_BYTES:]
        if len(self.data) > MAX_BYTES:
            self.drop(self.end - MAX_BYTES)
        return new

    def last_lines(self) -> tuple[str, ...]:
        """The end of the log, without the times: as much as an agent reports of its own."""
        lines = self.recent.decode("utf-8", "replace").splitlines()[-LAST_LINES:]
        return tuple(line.partition(" ")[2][:LINE_CHARACTERS] for line in lines)

    def drop(self, until: int) -> None:
        """Forget what lies before an offset: it is safe."""
        count = min(max(0, until - self.start), len(self.data))
        del self.data[:count]
        self.start += count

    def save(self, store: Store, prefix: str) -> None:
        """Put the whole lines that are left into the bucket, after what is there already."""
        while (size := self.data.rfind(b"\n") + 1) > 0:
            key = f"{prefix}/{self.start:012d}"
            try:
                store.put_if_absent(key, bytes(self.data[:size]))
            except PreconditionError:
                entry = store.head(key)
                size = entry.size_bytes if entry and entry.size_bytes else size
            self.drop(self.start + size)
