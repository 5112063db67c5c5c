"""The state of the simulated Cloud TPU, in memory and on disk."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from localsim.rules.db.agenda import Agenda
from localsim.rules.db.collection import Collection, OperationLog
from localsim.rules.db.journal import DurableCounters, Journal
from localsim.rules.model import quota_pools
from localsim.rules.model.events import Event
from localsim.rules.model.nodes import Node
from localsim.rules.model.operations import Operation
from localsim.rules.model.queued_resources import QueuedResource
from localsim.rules.scenario.active_scenario import ActiveScenario
from localsim.rules.scenario.incidents import IncidentLog
from localsim.rules.scenario.scenario import Scenario
from localsim.rules.scenario.timeline import Timeline


class State:
    """Resources, agenda, counters, and the events that wait to be handed out."""

    def __init__(
        self, connection: sqlite3.Connection, scenario: Scenario, project_number: int
    ) -> None:
        """Read what an earlier run left in the database, or create its tables."""
        self.project_number = project_number
        self.journal = journal = Journal(connection)
        self.conditions = ActiveScenario(journal, scenario)
        self.timeline = Timeline(journal)
        self.incidents = IncidentLog(journal)
        self.api_version = "v2"
        """The version of the API that the call at hand speaks, for the operations it begins."""
        self.nodes = Collection(journal, "tpu_nodes", Node, _require_known_types)
        self.nodes_by_owner = self.nodes.index(lambda node: _named(node.queued_resource))
        self.nodes_by_address = self.nodes.index(lambda node: node.addresses)
        self.workers_held = self.nodes.tally(lambda node: {node.zone: len(node.addresses)})
        self.slices_held = self.nodes.tally(quota_pools.slices_of_node)
        self.reserved_held = self.nodes.tally(quota_pools.reserved_units_of_node)
        self.addresses_held = self.nodes.tally(quota_pools.addresses_of_node)
        self.quota_held_by_nodes = self.nodes.tally(quota_pools.quota_of_node)
        self.requests = Collection(
            journal, "tpu_queued_resources", QueuedResource, _require_known_types
        )
        self.requests_by_state = self.requests.index(lambda request: (request.state,))
        self.quota_held_by_requests = self.requests.tally(quota_pools.quota_of_request)
        self.operations = OperationLog(journal, _require_known_types)
        self.agenda = Agenda(journal)
        self._counters = DurableCounters(journal)
        self.events: list[Event] = []

    @property
    def scenario(self) -> Scenario:
        """The scenario in force."""
        return self.conditions.scenario

    @contextmanager
    def change(self) -> Iterator[None]:
        """Run the block as a whole or not at all, events included; see `Journal.change`."""
        mark = len(self.events)
        try:
            with self.journal.change():
                yield
        except BaseException:
            del self.events[mark:]
            raise

    def random(self, subject: str) -> Random:
        """A new source of draws about the subject; the same history draws the same numbers."""
        return Random(f"{self.scenario.seed}/{subject}/{self.count(f'draws/{subject}')}")  # noqa: S311 (reproducible)

    def count(self, name: str, step: int = 1) -> int:
        """Add `step` to a counter and return its value before."""
        return self._counters.add(name, step)

    def clear(self) -> None:
        """Remove every resource; counters go on, so that no id or address is given out twice."""
        for collection in (self.nodes, self.requests, self.operations):
            for name in [each.name for each in collection]:
                collection.remove(name)
        self.agenda.clear()
        self.journal.delete_unreadable()


def _require_known_types(record: Node | QueuedResource | Operation | None) -> None:
    """Raise catalog.UnknownError for a record with an accelerator type that is not offered."""
    if isinstance(record, Operation):
        _require_known_types(record.node or record.queued_resource)
        return
    nodes = record.spec.nodes if isinstance(record, QueuedResource) else [record] if record else []
    for node in nodes:
        quota_pools.pool(node.spec.accelerator_type, preemptible=False)


def _named(name: str) -> tuple[str, ...]:
    return (name,) if name else ()
