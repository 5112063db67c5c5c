"""A bucket in memory, and stores that reach it through whatever is to happen to their requests.

    bucket = MemoryBucket()
    store = MemoryStore(bucket, around)

`around(request, effect)` is every request of that store: `effect()` has it done. What it raises
reaches the caller, before the effect or after it; it may keep the effect for later, or block.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tpuctl.errors import IntegrityError, NotFoundError, PreconditionError
from tpuctl.store.entry import Entry, Source, blocks, crc32c


class Request(NamedTuple):
    """One call of a store: the `number`-th of it, from 1."""

    number: int
    verb: str
    """put, get (verified as a whole), read (a range, unverified), head, list or delete."""
    key: str


class Change(NamedTuple):
    """What a request did to the bucket; without an entry, the object was deleted."""

    key: str
    entry: Entry | None
    data: bytes = b""


Around = Callable[[Request, Callable[[], Any]], Any]


def at_once(request: Request, effect: Callable[[], Any]) -> Any:
    """Nothing happens to it."""
    return effect()


class Killed(SystemExit):
    """The program is no more: nothing catches it, and a thread ends of it in silence."""


@dataclass
class MemoryBucket:
    """Objects, and every change that was made to them, in order."""

    objects: dict[str, tuple[Entry, bytes]] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    last_generation: int = 1_000

    @classmethod
    def after(cls, changes: list[Change]) -> "MemoryBucket":
        """A bucket to which these changes were made, and no others."""
        bucket = cls()
        for change in changes:
            bucket.make(change)
            if change.entry is not None:
                bucket.last_generation = max(bucket.last_generation, change.entry.generation)
        return bucket

    def make(self, change: Change) -> None:
        """Change it."""
        self.changes.append(change)
        if change.entry is None:
            del self.objects[change.key]
        else:
            self.objects[change.key] = change.entry, change.data

    def rot(self, key: str, data: bytes) -> None:
        """Other bytes, of which no listing tells: as when a disk forgets."""
        self.objects[key] = self.objects[key][0], data

    def keys(self, prefix: str = "") -> list[str]:
        """What is there."""
        return sorted(key for key in self.objects if key.startswith(prefix))

    def contents(self) -> dict[str, tuple[int, bytes]]:
        """Key -> generation and bytes."""
        return {key: (entry.generation, data) for key, (entry, data) in self.objects.items()}


class MemoryStore:
    """One client of a bucket, with the calls of tpuctl.store.Store."""

    def __init__(self, bucket: MemoryBucket, around: Around = at_once) -> None:
        self.bucket = bucket
        self.around = around
        self.requests: list[Request] = []
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return "memory"

    def put_if_absent(self, key: str, data: Source) -> Entry:
        return self.put_if_generation(key, data, 0)

    def put_if_generation(self, key: str, data: Source, generation: int) -> Entry:
        taken = b"".join(bytes(piece) for piece in blocks(data))

        def effect() -> Entry:
            found = self._generation(key)
            if found != generation:
                raise PreconditionError(f"{key} has generation {found}, not {generation}")
            self.bucket.last_generation += 1
            given = self.bucket.last_generation
            entry = Entry(key, len(taken), given, crc32c(taken), float(given))
            self.bucket.make(Change(key, entry, taken))
            return entry

        return self._request("put", key, effect)

    def get_range(
        self, key: str, start: int = 0, end: int | None = None, *, generation: int | None = None
    ) -> bytes:
        def effect() -> bytes:
            entry, data = self._found(key, generation)
            if start == 0 and end is None and crc32c(data) != entry.crc32c:
                raise IntegrityError(f"{key} is not what was written")
            return data[start:end]

        return self._request("get", key, effect)

    def read_into(self, key: str, start: int, buffer: memoryview, *, generation: int) -> None:
        def effect() -> bytes:
            return self._found(key, generation)[1][start : start + len(buffer)]

        data = self._request("read", key, effect)
        if len(data) < len(buffer):
            raise IntegrityError(f"{key} ends before byte {start + len(buffer)}")
        buffer[:] = data

    def head(self, key: str) -> Entry | None:
        def effect() -> Entry | None:
            return self.bucket.objects[key][0] if key in self.bucket.objects else None

        return self._request("head", key, effect)

    def list(self, prefix: str = "") -> Iterator[Entry]:
        def effect() -> list[Entry]:
            return [self.bucket.objects[key][0] for key in self.bucket.keys(prefix)]

        return iter(self._request("list", prefix, effect))

    def delete(self, key: str, *, generation: int | None = None) -> bool:
        def effect() -> bool:
            found = self._generation(key)
            if not found:
                return False
            if generation not in (None, found):
                raise PreconditionError(f"{key} has generation {found}, not {generation}")
            self.bucket.make(Change(key, None))
            return True

        return self._request("delete", key, effect)

    def _found(self, key: str, generation: int | None) -> tuple[Entry, bytes]:
        if key not in self.bucket.objects:
            raise NotFoundError(f"there is no {key}")
        entry, data = self.bucket.objects[key]
        if generation not in (None, entry.generation):
            raise NotFoundError(f"{key} has no generation {generation}")
        return entry, data

    def _generation(self, key: str) -> int:
        return self.bucket.objects[key][0].generation if key in self.bucket.objects else 0

    def _request(self, verb: str, key: str, effect: Callable[[], Any]) -> Any:
        with self._lock:
            request = Request(len(self.requests) + 1, verb, key)
            self.requests.append(request)

        def locked() -> Any:
            with self.bucket.lock:
                return effect()

        return self.around(request, locked)
