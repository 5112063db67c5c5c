"""The bucket of a history: the six calls of a store, in memory, with generations and faults."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from soak.checkpoints.fault_plan import Faults
from soak.jobs.world.virtual_time import EPOCH_S, Machine, Universe
from tpuctl.errors import NotFoundError, PreconditionError
from tpuctl.store import Entry


class Bucket:
    """What the service has; each call happens at once."""

    def __init__(self, universe: Universe) -> None:
        self.universe = universe
        self.objects: dict[str, tuple[Entry, bytes]] = {}
        self.last_generation = 0
        self.writes = 0

    def put(self, key: str, data: bytes, generation: int) -> Entry:
        if self._generation(key) != generation:
            raise PreconditionError(f"{key} has not generation {generation}")
        self.last_generation += 1
        self.writes += 1
        now_s = EPOCH_S + self.universe.now_s
        entry = Entry(key, len(data), self.last_generation, "", now_s)
        self.objects[key] = entry, data
        return entry

    def get(self, key: str, start: int, end: int | None, generation: int | None) -> bytes:
        if key not in self.objects or generation not in (None, self._generation(key)):
            raise NotFoundError(f"no {key} of generation {generation}")
        return self.objects[key][1][start:end]

    def head(self, key: str) -> Entry | None:
        return self.objects[key][0] if key in self.objects else None

    def list(self, prefix: str) -> list[Entry]:
        return [self.objects[key][0] for key in sorted(self.objects) if key.startswith(prefix)]

    def delete(self, key: str, generation: int | None) -> bool:
        if key not in self.objects:
            return False
        if generation not in (None, self._generation(key)):
            raise PreconditionError(f"{key} has not generation {generation}")
        del self.objects[key]
        return True

    def _generation(self, key: str) -> int:
        return self.objects[key][0].generation if key in self.objects else 0


@dataclass
class BucketClient:
    """The bucket as one machine reaches it."""

    bucket: Bucket
    machine: Machine | None
    """None: from nowhere, at once and without faults."""
    faults: Faults
    url: str = "gs://b"

    def put_if_absent(self, key: str, data: Any) -> Entry:
        return self.put_if_generation(key, data, 0)

    def put_if_generation(self, key: str, data: Any, generation: int) -> Entry:
        body = data if isinstance(data, bytes) else data.read()
        found: Entry = self._ask(lambda: self.bucket.put(key, body, generation))
        return found

    def get_range(
        self, key: str, start: int = 0, end: int | None = None, *, generation: int | None = None
    ) -> bytes:
        found: bytes = self._ask(lambda: self.bucket.get(key, start, end, generation))
        return found

    def head(self, key: str) -> Entry | None:
        found: Entry | None = self._ask(lambda: self.bucket.head(key))
        return found

    def list(self, prefix: str = "") -> Iterator[Entry]:
        yield from self._ask(lambda: self.bucket.list(prefix))

    def delete(self, key: str, *, generation: int | None = None) -> bool:
        found: bool = self._ask(lambda: self.bucket.delete(key, generation))
        return found

    def _ask(self, effect: Any) -> Any:
        if self.machine is None:
            return effect()
        return self.machine.ask(self.faults.around("storage", effect))
