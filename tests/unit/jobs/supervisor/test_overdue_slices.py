"""The supervisor deletes overdue slices of the context, and nothing that is not surely overdue."""

import asyncio
from dataclasses import dataclass, field, replace

import pytest

from tpuctl.agent.tools import lifetime
from tpuctl.errors import NotFoundError, PermissionDeniedError, TransientError
from tpuctl.jobs.interfaces import Clocks
from tpuctl.jobs.leases.heartbeat_sender import HeartbeatSender
from tpuctl.jobs.leases.supervisor_scope import SupervisorScope
from tpuctl.jobs.supervisor.overdue_slices import OverdueSlices
from tpuctl.models.limits.slice_lifetime import ATTRIBUTE
from tpuctl.models.node import Node, Worker
from tpuctl.store import open_store

ZONE, CREATED_S, HOUR_S = "us-west4-a", 1_800_000_000.0, 3600.0
TTL = {lifetime.TTL_LABEL: "4h"}
IDLE = {lifetime.IDLE_LABEL: "30m"}


def node(name: str, labels=(), **extra) -> Node:
    workers = (Worker(0, "10.0.0.2"), Worker(1, "10.0.0.3"))
    return Node(
        name, ZONE, hash(name) & 0xFFFF, "v5litepod-8", "v2", "READY", "spot", CREATED_S,
        labels=dict(labels), workers=workers, **extra,
    )  # fmt: skip


@dataclass
class Nodes:
    """The nodes of a project; `changed` ones are read as they are there."""

    listed: list[Node]
    changed: dict[str, Node | None] = field(default_factory=dict)
    reports: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)

    def read_nodes(self, zone="-"):
        return self.listed, []

    def get_node(self, zone, name):
        found = self.changed.get(name, next(each for each in self.listed if each.name == name))
        if found is None:
            raise NotFoundError(name)
        return found

    def guest_attributes(self, zone, name, query_path):
        if not self.reports:
            raise PermissionDeniedError("not allowed")
        assert query_path == ATTRIBUTE
        return [{ATTRIBUTE: text} for text in self.reports]

    def delete_node(self, zone, name):
        if name in self.refused:
            raise PermissionDeniedError("not allowed")
        self.deleted.append(name)

    def delete_queued_resource(self, zone, name, *, force):
        assert force
        self.deleted.append(f"qr {name}")


class Supervised:
    """A supervisor's part that deletes, and the clock of the storage service."""

    def __init__(self, directory, *listed: Node, after_s: float = 4 * HOUR_S):
        self.nodes, self.said = Nodes(list(listed)), []
        store = open_store(str(directory))
        put = store.put_if_generation

        class Dated:
            """The store, which dates what is written by Google's clock."""

            put_if_generation = staticmethod(
                lambda *args: replace(put(*args), updated_s=CREATED_S + after_s)
            )

        clocks = Clocks(lambda: 0.0, lambda: 5.0, asyncio.sleep)
        sender = HeartbeatSender(
            Dated(), "here", SupervisorScope(("me",)), clocks, self.said.append
        )
        self.overdue = OverdueSlices(self.nodes, sender, lambda: None, clocks, self.said.append)

    def look(self):
        asyncio.run(self.overdue.delete_once())
        return self.nodes.deleted


def test_a_slice_goes_when_its_ttl_is_over_by_googles_clock(tmp_path):
    here = Supervised(tmp_path, node("n1", TTL), node("n2", {lifetime.TTL_LABEL: "5h"}), node("n3"))
    assert here.look() == ["n1"]
    assert here.said == ["node n1 in us-west4-a is deleted: its ttl of 4h is over"]


def test_a_second_before_it_stays(tmp_path):
    assert Supervised(tmp_path, node("n1", TTL), after_s=4 * HOUR_S - 1).look() == []


def test_the_queued_resource_goes_with_it(tmp_path):
    assert Supervised(tmp_path, node("n1", TTL, queued_resource="q1")).look() == ["qr q1"]


def test_a_ttl_that_was_extended_meanwhile_counts(tmp_path):
    here = Supervised(tmp_path, node("n1", TTL))
    here.nodes.changed["n1"] = node("n1", {lifetime.TTL_LABEL: "8h"})
    assert here.look() == []


@pytest.mark.parametrize(
    "now",
    [
        None,
        replace(node("n1", TTL), node_id=7),
        replace(node("n1", TTL), created_s=CREATED_S + 60),
        replace(node("n1", TTL), state="DELETING"),
    ],
)
def test_another_node_of_the_name_or_one_that_goes_already_is_left_alone(tmp_path, now):
    here = Supervised(tmp_path, node("n1", TTL))
    here.nodes.changed["n1"] = now
    assert here.look() == []


def test_an_idle_slice_goes_when_all_of_its_workers_say_so(tmp_path):
    now_s = CREATED_S + 4 * HOUR_S
    here = Supervised(tmp_path, node("n1", IDLE))
    here.nodes.reports = [lifetime.activity_text(now_s - 1800, now_s)]
    assert here.look() == [], "one of two"
    here.nodes.reports *= 2
    assert here.look() == ["n1"]


def test_where_the_reports_cannot_be_read_it_is_not_idle(tmp_path):
    assert Supervised(tmp_path, node("n1", IDLE)).look() == []


def test_one_that_cannot_be_deleted_is_told_once_and_keeps_no_other(tmp_path):
    here = Supervised(tmp_path, node("n1", TTL), node("n2", TTL))
    here.nodes.refused = {"n1"}
    here.look()
    here.look()
    assert here.nodes.deleted == ["n2", "n2"]
    text = "node n1 in us-west4-a is overdue, and cannot be deleted: not allowed"
    assert here.said.count(text) == 1


def test_a_supervisor_without_a_heartbeat_does_nothing(tmp_path, monkeypatch):
    here = Supervised(tmp_path, node("n1", TTL))

    def refuse(*_):
        raise TransientError("the bucket is away")

    monkeypatch.setattr(here.overdue.sender.heartbeat.store, "put_if_generation", refuse)
    assert here.look() == []


def test_nothing_is_written_where_no_slice_has_a_limit(tmp_path):
    assert Supervised(tmp_path, node("n1")).look() == []
    assert list(open_store(str(tmp_path)).list()) == []
