"""Everything the simulated Cloud TPU knows, in memory and on disk alike."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

from localsim.cloud.agenda import Agenda
from localsim.cloud.collection import Collection
from localsim.cloud.database import transaction
from localsim.cloud.events import Event
from localsim.cloud.nodes import Node
from localsim.cloud.operations import Operation
from localsim.cloud.queued_resources import QueuedResource
from localsim.cloud.scenario import Scenario

FIRST_ADDRESS = 0x0A800002  # 10.128.0.2
ADDRESSES = 1 << 23


class State:
    """Resources, agenda, counters and the events that wait to be handed out."""

    def __init__(self, connection: sqlite3.Connection, scenario: Scenario) -> None:
        """Read what an earlier run left in the database."""
        self._connection = connection
        self._undo: list[Callable[[], object]] = []
        self.scenario = scenario
        self.nodes = Collection(connection, "tpu_nodes", Node, self._undo)
        self.requests = Collection(connection, "tpu_queued_resources", QueuedResource, self._undo)
        self.operations = Collection(connection, "tpu_operations", Operation, self._undo)
        self.agenda = Agenda(connection, self._undo)
        self.events: list[Event] = []
        connection.execute(
            "CREATE TABLE IF NOT EXISTS tpu_counters (name TEXT PRIMARY KEY, value INTEGER)"
        )

    @contextmanager
    def change(self) -> Iterator[None]:
        """All of the block, on disk when it ends; or nothing of it, neither there nor in memory."""
        events = list(self.events)
        try:
            with transaction(self._connection):
                yield
        except BaseException:
            for undo in reversed(self._undo):
                undo()
            self.events[:] = events
            raise
        finally:
            self._undo.clear()

    def random(self, subject: str) -> Random:
        """A fresh source of draws about the subject; the same history draws the same numbers."""
        return Random(f"{self.scenario.seed}/{subject}/{self.count(f'draws/{subject}')}")  # noqa: S311 (reproducible)

    def count(self, name: str, step: int = 1) -> int:
        """Add to a counter and return what it was before."""
        ((after,),) = self._connection.execute(
            "INSERT INTO tpu_counters VALUES (?1, ?2)"
            " ON CONFLICT DO UPDATE SET value = value + ?2 RETURNING value",
            (name, step),
        )
        return int(after) - step

    def new_addresses(self, count: int) -> tuple[str, ...]:
        """Internal addresses that no live node has."""
        taken = {address for node in self.nodes for address in node.addresses}
        found: list[str] = []
        while len(found) < count:
            address = _dotted(FIRST_ADDRESS + self.count("addresses") % (ADDRESSES - 3))
            if address not in taken:
                found.append(address)
        return tuple(found)

    def has_capacity(self, zone: str, accelerator_type: str) -> bool:
        """Whether one more slice of the type can be had in the zone now."""
        limit = self.scenario.limit(zone, accelerator_type)
        if limit == float("inf"):
            return True
        return limit > sum(
            node.has_capacity
            and (node.zone, node.spec.accelerator_type) == (zone, accelerator_type)
            for node in self.nodes
        )

    def clear(self) -> None:
        """Forget every resource; counters go on, so that no id or address comes again."""
        for collection in (self.nodes, self.requests, self.operations):
            for name in [each.name for each in collection]:
                collection.remove(name)
        self.agenda.clear()


def _dotted(number: int) -> str:
    return ".".join(str(byte) for byte in number.to_bytes(4, "big"))
