"""What commands note of the requests that they make and wait for."""

from contextlib import suppress
from dataclasses import replace

import pytest

from tpuctl.api.tpu.explain import ClosedZoneError, QuotaError, StockoutError
from tpuctl.api.tpu.network_errors import AddressesUsedError, NoNetworkError
from tpuctl.errors import PermissionDeniedError, PreemptedError, TransientError, UsageError
from tpuctl.ledger.refusals import load_events
from tpuctl.models.capacity.capacity_event import node_key, request_key
from tpuctl.models.node import Node, NodeSpec, Provisioning
from tpuctl.models.queued_resource import QueuedResource
from tpuctl.operations.slices import capacity_notes
from tpuctl.store import open_store

NOW_S = 1_795_000_000.0
SPEC = NodeSpec("n1", "us-west4-a", "v5litepod-16", "v2", Provisioning.SPOT)
REQUEST = QueuedResource(
    "q1", "us-west4-a", "ACCEPTED", "USER", ("q1-0", "q1-1"), "v5litepod-16", "v2", "spot",
    NOW_S - 600,
)  # fmt: skip


def refused(error: Exception):
    """What is noted of a creation that fails with the error."""
    noted = []
    with (
        pytest.raises(type(error)),
        capacity_notes.note_refusal(noted.append, SPEC, 2, "r1", lambda: NOW_S),
    ):
        raise error
    return noted


def watched(*states: str, error: Exception | None = None, **changes):
    """Kind, cause and duration of what is noted while a request goes through these states."""

    def go_through():
        for state in states:
            yield replace(REQUEST, state=state, **changes)
        if error:
            raise error

    noted = []
    with suppress(PreemptedError, QuotaError, TransientError):
        list(capacity_notes.note_states(noted.append, go_through(), lambda: NOW_S))
    return [(each.kind.value, each.cause and each.cause.value, each.after_s) for each in noted]


def test_a_refusal_is_noted_with_its_cause_and_goes_on():
    (event,) = refused(StockoutError("none"))
    assert (event.key, event.slices, event.zone, event.time_s) == ("r1", 2, "us-west4-a", NOW_S)
    causes = [
        [event.cause.value for event in refused(error)]
        for error in (
            QuotaError(""), StockoutError(""), AddressesUsedError(""), ClosedZoneError(""),
            PermissionDeniedError(""), NoNetworkError(""), TransientError(""), UsageError(""),
        )
    ]  # fmt: skip
    assert causes == [["quota"], ["stockout"], ["addresses"], ["permission"], [], [], [], []]


def test_a_grant_of_a_node_has_the_node_s_id():
    node = Node(7, "us-west4-a", 7, "v5litepod-16", "v2", "READY", "spot", NOW_S)
    event = capacity_notes.grant_of_node(node, 42.0, NOW_S)
    assert (event.key, event.kind, event.after_s) == (node_key(7), "granted", 42.0)


def test_states_say_what_a_request_met():
    assert watched("ACCEPTED", "PROVISIONING", "ACTIVE") == [("granted", None, 600.0)]
    assert watched("WAITING_FOR_RESOURCES", "ACTIVE") == [
        ("refused", "stockout", None),
        ("granted", None, 600.0),
    ]
    assert watched("ACTIVE") == []
    assert watched("WAITING_FOR_RESOURCES", valid_after_s=NOW_S + 60) == []
    assert watched("ACCEPTED", "ACTIVE", valid_after_s=NOW_S - 60) == [("granted", None, 60.0)]


def test_errors_say_what_a_request_met():
    assert watched("FAILED", error=QuotaError("")) == [("refused", "quota", None)]
    lost = PreemptedError("")
    assert watched("SUSPENDED", error=lost, initiator="SERVICE") == [("preempted", None, None)]
    assert watched("SUSPENDED", error=lost, initiator="USER") == []
    assert watched(error=TransientError("")) == []


def test_a_job_s_request_has_the_key_that_its_record_has():
    def key(**changes) -> str:
        states = [replace(REQUEST, state="WAITING_FOR_RESOURCES", **changes)]
        noted = []
        list(capacity_notes.note_states(noted.append, states, lambda: NOW_S))
        return noted[0].key

    assert key(labels={"tpuctl-job": "j"}) == request_key("us-west4-a", "q1")
    assert key() == request_key("us-west4-a", "q1", NOW_S - 600)
    assert key() != key(created_s=NOW_S)


def test_what_cannot_be_written_is_no_error(tmp_path):
    (event,) = refused(StockoutError(""))
    store = open_store(str(tmp_path / "bucket"))
    capacity_notes.write_in_time([event], tmp_path / "home", lambda: store)
    assert load_events(store, NOW_S) == [event]

    def refuse():
        raise TransientError("the bucket is away")

    capacity_notes.write_in_time([event], tmp_path / "home", refuse)
