"""Faults as they are written, and what they do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.rules.model.events import BootSlice
from localsim.rules.scenario.fault_texts import GRAMMAR, parse
from localsim.rules.scenario.fault_types import (
    BootFault,
    CapacityOverride,
    FaultEffect,
    FaultKind,
    MethodFault,
    QuotaOverride,
    SshKeysDelay,
    StorageFault,
    UnreachableVpc,
    UnreachableZone,
    WorkerFault,
    WorkerFaultKind,
    kind_of,
)
from localsim.rules.scenario.roles import TPU_METHODS
from localsim.rules.scenario.scenario import ScenarioError
from unit.localsim.rules.cloud_rig import NODE, SINGLE, SPOT, ZONE
from unit.localsim.rules.requests.requests_asked import asked, file, state

pytest_plugins = ("unit.localsim.rules.cloud_fixtures",)

UNAVAILABLE = FaultEffect(code=Code.UNAVAILABLE)
EVERYWHERE = "projects/demo/locations/-"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("GetNode: UNAVAILABLE x2 after call 3", MethodFault("GetNode", UNAVAILABLE, 2, 3)),
        (" GetNode :UNAVAILABLE  x2 ", MethodFault("GetNode", UNAVAILABLE, 2)),
        ("CreateNode: latency 2s", MethodFault("CreateNode", FaultEffect(latency_s=2.0))),
        ("*: latency 500ms x1", MethodFault("*", FaultEffect(latency_s=0.5), 1)),
        ("ListNodes: reset x1", MethodFault("ListNodes", FaultEffect(reset=True), 1)),
        ("* : lost answer x2", MethodFault("*", FaultEffect(loses_answer=True), 2)),
        ("worker train-*/2: never boots", BootFault("train-*", 2)),
        ("worker a/0: killed", WorkerFault("a", 0, WorkerFaultKind.KILLED)),
        ("worker a/1: cut off", WorkerFault("a", 1, WorkerFaultKind.CUT_OFF)),
        ("worker a/2: slow 2.5x", WorkerFault("a", 2, WorkerFaultKind.SLOW, 2.5)),
        ("worker *a/3: refuses ssh", WorkerFault("*a", 3, WorkerFaultKind.REFUSES_SSH)),
        ("keys a: late 5m", SshKeysDelay("a", 300.0)),
        ("zone us-west4-a: unreachable", UnreachableZone("us-west4-a")),
        ("vpc: unreachable", UnreachableVpc()),
        (
            "capacity us-west4-a v5litepod-16: 0",
            CapacityOverride("us-west4-a", "v5litepod-16", 0),
        ),
        ("capacity * *: 3", CapacityOverride("*", "*", 3)),
        ("quota IN_USE_ADDRESSES: 8", QuotaOverride("IN_USE_ADDRESSES", "*", 8)),
        ("quota IN_USE_ADDRESSES us-west4: 8", QuotaOverride("IN_USE_ADDRESSES", "us-west4", 8)),
    ],
)
def test_what_can_be_written(text, fault):
    assert parse(text) == fault


def test_the_examples_of_the_grammar_are_of_every_kind():
    examples = [line.rpartition("  ")[2] for line in GRAMMAR.splitlines() if "  " in line]
    assert {kind_of(parse(text)) for text in examples} == set(FaultKind)


def test_every_example_of_the_grammar_is_one():
    tpu, storage = (part.splitlines() for part in GRAMMAR.split("\n\n"))
    rows, storage_rows = tpu[:-1], storage[:-2]
    assert (len(rows), len(storage_rows)) == (16, 9)
    assert {type(parse(row[42:])) for row in rows} == {
        *(MethodFault, BootFault, WorkerFault, SshKeysDelay),
        *(UnreachableZone, UnreachableVpc, CapacityOverride, QuotaOverride),
    }
    assert {type(parse(row[42:])) for row in storage_rows} == {StorageFault}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "fault: '' has no colon; as: GetNode: UNAVAILABLE x2 after call 3"),
        ("GetNod: INTERNAL", "fault: unknown method 'GetNod'; nearest: GetNode"),
        ("GetNode: UNAVAIL", "fault: unknown code 'UNAVAIL'; nearest: UNAVAILABLE"),
        ("GetNode: OK", "fault: unknown code 'OK'; nearest: "),
        ("GetNode: INTERNAL x", "fault: 'GetNode: INTERNAL x' is not understood; as: GetNode:"),
        ("GetNode: latency soon", "fault: 'GetNode: latency soon' needs a time such as 2s"),
        ("GetNode: latency 9999999h", "the time of a fault must be at most"),
        ("node a: gone", "fault: 'node a' is neither a method nor one of worker, keys, zone,"),
        ("worker a: never boots", "worker must be NODE/INDEX, not 'a'"),
        ("worker a/1: boots", "fault: unknown trouble 'boots'; nearest: never boots"),
        ("worker a/1: hangs x1", "fault: unknown trouble 'hangs x1'; nearest: hangs"),
        ("worker a/1: slow 1x", "fault: 'worker a/1: slow 1x' needs a factor above 1, up to 100"),
        ("worker a/1: slow 101x", "fault: 'worker a/1: slow 101x' needs a factor above 1, up to"),
        ("zone us-west4-z: unreachable", "fault: unknown zone 'us-west4-z'; nearest: us-west4-"),
        ("vpc: gone", "fault: 'vpc: gone' is not understood; as: vpc: unreachable"),
        (
            "vpc default: unreachable",
            "fault: 'vpc default: unreachable' is not understood; as: vpc",
        ),
        ("capacity us-west4-a: 1", "fault: 'capacity us-west4-a: 1' is not understood; as:"),
        ("capacity us-west4-a v9-1: 1", "fault.us-west4-a: unknown accelerator type 'v9-1'"),
        ("quota TPU: 1", "fault: unknown quota 'TPU'; nearest: "),
    ],
)
def test_mistakes_are_one_line(text, message):
    with pytest.raises(ScenarioError) as error:
        parse(text)
    assert str(error.value).startswith(message)


@given(st.text(max_size=60) | st.from_regex(r"(GetNode|zone a|keys .|worker .): .{0,20}"))
def test_whatever_is_written_is_a_fault_or_one_line(text):
    try:
        parse(text)
    except ScenarioError as error:
        assert "\n" not in str(error)


def met(rig):
    return {each.text: each.met for each in rig.cloud.faults()}


def test_a_fault_strikes_the_calls_it_is_meant_for(rigged):
    rig = rigged(faults=["GetNode: UNAVAILABLE x2 after call 3"])
    verdicts = [rig.cloud.meet_fault("GetNode") for _ in range(4)]
    rig.restart()
    verdicts += [rig.cloud.meet_fault("GetNode") for _ in range(3)]
    assert verdicts == [None] * 3 + [UNAVAILABLE] * 2 + [None] * 2
    assert rig.cloud.meet_fault("ListNodes") is None
    assert met(rig) == {"GetNode: UNAVAILABLE x2 after call 3": 2}


@given(times=st.integers(1, 5), after=st.integers(0, 5), methods=st.lists(st.sampled_from("GLD")))
def test_faults_count_their_own_method(times, after, methods):
    names = {"G": "GetNode", "L": "ListNodes", "D": "DeleteNode"}
    assert set(names.values()) <= set(TPU_METHODS)
    fault = MethodFault("GetNode", UNAVAILABLE, times, after)
    struck = [fault.strikes(call) for call in range(methods.count("G"))]
    assert sum(struck) == max(0, min(times, len(struck) - after))


def test_several_faults_of_a_call_come_together(rig):
    for text in ("*: latency 1s", "GetNode: latency 2s", "GetNode: NOT_FOUND", "*: INTERNAL"):
        rig.cloud.add_fault(text)
    assert rig.cloud.meet_fault("GetNode") == FaultEffect(latency_s=3.0, code=Code.NOT_FOUND)
    assert rig.cloud.meet_fault("ListNodes") == FaultEffect(latency_s=1.0, code=Code.INTERNAL)


def test_what_was_added_survives_a_restart_and_is_cleared(rigged):
    rig = rigged(faults=["*: latency 1s"])
    rig.cloud.add_fault("GetNode: INTERNAL")
    rig.restart()
    assert list(met(rig)) == ["*: latency 1s", "GetNode: INTERNAL"]
    rig.cloud.clear_faults()
    rig.restart()
    assert (met(rig), rig.cloud.meet_fault("GetNode")) == ({}, None)
    rig.cloud.clear()  # everything begins again
    assert list(met(rig)) == ["*: latency 1s"]


def test_what_is_no_fault_changes_nothing(rig):
    with pytest.raises(ScenarioError):
        rig.cloud.add_fault("GetNode")
    assert met(rig) == {}


def test_a_zone_that_does_not_answer(rig):
    rig.ready()
    file(rig, "q", asked("b"))
    south = "projects/demo/locations/us-south1-a"
    rig.cloud.create_node(south, "c", SINGLE)
    rig.cloud.add_fault("zone us-west4-a: unreachable")
    for call in (
        lambda: rig.cloud.get_node(NODE),
        lambda: rig.cloud.list_nodes(ZONE),
        lambda: rig.cloud.create_node(ZONE, "d", SINGLE),
        lambda: rig.cloud.delete_queued_resource(f"{ZONE}/queuedResources/q"),
    ):
        with pytest.raises(CloudError) as error:
            call()
        assert error.value.code == Code.UNAVAILABLE
    nodes, requests = (
        rig.cloud.list_nodes(EVERYWHERE),
        rig.cloud.list_queued_resources(EVERYWHERE),
    )
    assert [node.node_id for node in nodes.items] == ["c"]
    assert (requests.items, requests.unreachable) == ((), (ZONE,)) == ((), nodes.unreachable)
    assert rig.cloud.list_accelerator_types(EVERYWHERE).unreachable == (ZONE,)
    assert met(rig)["zone us-west4-a: unreachable"] > 0
    rig.cloud.clear_faults()
    assert len(rig.cloud.list_nodes(EVERYWHERE).items) == 2


def test_capacity_and_quota_can_be_taken_away_and_given_back(rig):
    rig.cloud.add_fault("capacity us-west4-a v5litepod-16: 0")
    file(rig)
    rig.live(5)
    assert state(rig) == "WAITING_FOR_RESOURCES"
    rig.cloud.add_fault("quota TPUV5sLitepodServingPerProjectPerZoneForTPUAPI us-west4-a: 0")
    with pytest.raises(CloudError, match="Limit: 0"):
        rig.cloud.create_node(ZONE, "b", SINGLE)
    rig.cloud.clear_faults()
    rig.live(5)
    assert state(rig) == "ACTIVE"
    rig.cloud.create_node(ZONE, "b", SINGLE)


def test_workers_are_told_what_is_wrong_with_them(rigged):
    rig = rigged(worker_that_never_boots="a*/1")
    rig.cloud.add_fault("worker a/3: never boots")
    rig.cloud.add_fault("worker a/9: never boots")
    rig.cloud.add_fault("keys b: late 30s")
    for node_id in ("a", "b"):
        rig.cloud.create_node(ZONE, node_id, SPOT)
    first, second = (event for event in rig.tick(1) if isinstance(event, BootSlice))
    assert (first.never_boots, first.ssh_keys_delay_s) == ((1, 3), 0.0)
    assert (second.never_boots, second.ssh_keys_delay_s) == ((), 30.0)
    assert met(rig)["worker a/3: never boots"] == 1
    rig.restart()
    assert [event.never_boots for event in rig.tick()] == [(1, 3), ()]
