"""The end of a worker's log that is not in the bucket yet, kept here in case the worker goes."""

from dataclasses import dataclass, field

from tpuctl.errors import PreconditionError
from tpuctl.store import Store

MAX_BYTES = 4 * 1024 * 1024


@dataclass(slots=True)
class Tail:
    """Bytes from `start` on, as they came over the worker's stream."""

    start: int = 0
    data: bytearray = field(default_factory=bytearray)

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
        if len(self.data) > MAX_BYTES:
            self.drop(self.end - MAX_BYTES)
        return new

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
