"""A memory of the chip: how much of it is held, and what does not fit any more."""

from threading import RLock
from typing import NoReturn

_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


class MemoryFullError(MemoryError):
    """What would not fit the real chip either; the message has the sizes."""


class Memory:
    """Counts bytes; the values themselves are where Python keeps them."""

    def __init__(
        self, name: str, capacity_bytes: int, *, generation: str, is_tiled: bool = False
    ) -> None:
        """Empty; errors say the name and the generation. VMEM is tiled, HBM is not.

        `peak_bytes` is the most that was used since take_peak_bytes.
        """
        self.name = name
        self.capacity_bytes = capacity_bytes
        self.generation = generation
        self.is_tiled = is_tiled
        self.used_bytes = 0
        self.peak_bytes = 0
        # Reentrant: a garbage collection may free within an allocation.
        self._lock = RLock()

    def allocate(self, size_bytes: int, what: object) -> "Allocation":
        """Hold bytes until the Allocation is dropped; raises MemoryFullError, which says what."""
        with self._lock:
            self.make_room(size_bytes, what)
            self.used_bytes += size_bytes
        return Allocation(self, size_bytes)

    def make_room(self, size_bytes: int, what: object) -> None:
        """Check that so many bytes fit beside what is held; raises MemoryFullError."""
        with self._lock:
            needed_bytes = self.used_bytes + size_bytes
            if needed_bytes > self.capacity_bytes:
                raise MemoryFullError(
                    f"{_text(size_bytes)} of {self.name} for {what} do not fit {self.generation}: "
                    f"{_text(self.capacity_bytes)}, of which {_text(self.used_bytes)} are in use"
                )
            self.peak_bytes = max(self.peak_bytes, needed_bytes)

    def free(self, size_bytes: int) -> None:
        """Hold so many bytes less."""
        with self._lock:
            self.used_bytes -= size_bytes

    def take_peak_bytes(self) -> int:
        """Return the most bytes held or needed at once since the last call."""
        with self._lock:
            taken, self.peak_bytes = self.peak_bytes, self.used_bytes
            return taken


class Allocation:
    """Bytes of a memory that Memory.allocate has counted, held as long as this object lives."""

    __slots__ = ("memory", "size_bytes")

    def __init__(self, memory: Memory, size_bytes: int) -> None:
        """Never made elsewhere: it frees what it did not take."""
        self.memory = memory
        self.size_bytes = size_bytes

    def __del__(self) -> None:
        self.memory.free(self.size_bytes)

    def __reduce__(self) -> NoReturn:
        raise TypeError("what a chip holds can be neither copied nor pickled; put its values again")


def _text(size_bytes: int) -> str:
    for unit, unit_bytes in _UNITS:
        if size_bytes >= unit_bytes:
            return f"{size_bytes / unit_bytes:.4g} {unit}"
    return f"{size_bytes} bytes"
