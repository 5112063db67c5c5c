"""Faults of Cloud Storage as they are written, and when they are counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localsim.rules.scenario.fault_texts import parse
from localsim.rules.scenario.fault_types import (
    BandwidthLimit,
    ConnectionCut,
    ConnectionReset,
    Corruption,
    DiskFull,
    LateRefusal,
    LostReply,
    StorageFault,
    StorageLatency,
    StorageRefusal,
    TransferStall,
)
from localsim.rules.scenario.scenario import ScenarioError
from localsim.rules.scenario.storage_fault_texts import METHODS, parse_instruction

pytest_plugins = ("unit.localsim.rules.cloud_fixtures",)

INSERT, GET = "storage.objects.insert", "storage.objects.get"


@pytest.mark.parametrize(
    ("text", "effect"),
    [
        ("return-503", StorageRefusal(503)),
        ("return-reset-connection", ConnectionReset()),
        ("return-503-after-256K", LateRefusal(503, 262144)),
        ("return-broken-stream", ConnectionCut(4)),
        ("return-broken-stream-after-256K", ConnectionCut(262144)),
        ("return-broken-stream-final-chunk-after-5B", LostReply(5)),
        ("return-corrupted-data", Corruption()),
        ("stall-for-10s-after-12K", TransferStall(10, 12288)),
        ("stall-at-256KiB", TransferStall(10, 262144)),
        ("stall-always", TransferStall(10, 0)),
    ],
)
def test_the_words_of_the_test_bench(text, effect):
    assert parse_instruction(text) == effect
    assert parse(f"storage.objects.get: {text} x1") == StorageFault(GET, effect, 1)


@pytest.mark.parametrize(
    "text",
    [
        "return-200",
        "return-304",
        "return-600",
        "return-503-after-256",
        "return-503-after-256K/retry-1",
        "redirect-send-token-T",
        "redirect-expect-token-T",
        "redirect-send-handle-and-token-T",
        "stall-for-10s",
        "return-٥03",
        "return-503 ",
        "",
    ],
)
def test_what_no_http_client_can_ask_for(text):
    assert parse_instruction(text) is None


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (f"{INSERT}: return-503 x2 after call 3", StorageFault(INSERT, StorageRefusal(503), 2, 3)),
        (f"{INSERT}: return-429 retry-after 2s", StorageFault(INSERT, StorageRefusal(429, 2))),
        (
            f"{INSERT}: return-429-after-8K retry-after 1s",
            StorageFault(INSERT, LateRefusal(429, 8192, 1)),
        ),
        ("storage.*: latency 200ms", StorageFault("storage.*", StorageLatency(0.2))),
        (f"{GET}: bandwidth 5MiB/s", StorageFault(GET, BandwidthLimit(5 * 1024 * 1024))),
        (f"{GET}: corrupt bytes x1", StorageFault(GET, Corruption(), 1)),
        (f"{INSERT}: disk full", StorageFault(INSERT, DiskFull())),
        (f"{INSERT}: disk full after 1.5 MiB x1", StorageFault(INSERT, DiskFull(1572864), 1)),
    ],
)
def test_what_only_scenarios_say(text, fault):
    assert parse(text) == fault


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "storage.object.get: return-503",
            "fault: unknown method 'storage.object.get'; nearest: s",
        ),
        (f"{GET}: UNAVAILABLE", f"fault: '{GET}: UNAVAILABLE' is not understood; as: storage.obj"),
        (f"{GET}: return-304", f"fault: '{GET}: return-304' is not understood; as: storage.obj"),
        (f"{GET}: latency", f"fault: '{GET}: latency' is not understood; as: storage.objects.ins"),
        (f"{GET}: latency soon", f"fault: '{GET}: latency soon' needs a time such as 2s"),
        (f"{GET}: bandwidth 0B/s", "fault: a bandwidth is at least 1B/s"),
        (f"{INSERT}: return-429 retry-after 500ms", "fault: Retry-After counts in whole seconds"),
        (f"{GET}: stall-for-999999999999s-after-1K", f"fault: '{GET}: stall-for-99999999"),
        ("GetNode: return-503", "fault: unknown code 'return-503'"),
    ],
)
def test_mistakes_are_one_line(text, message):
    with pytest.raises(ScenarioError) as error:
        parse(text)
    assert str(error.value).startswith(message)


@given(st.from_regex(r"storage\.(\*|objects\.get): (return|stall|disk|bandwidth).{0,20}"))
def test_whatever_is_written_is_a_fault_or_one_line(text):
    try:
        parse(text)
    except ScenarioError as error:
        assert "\n" not in str(error)


def met(rig):
    return [each.met for each in rig.cloud.faults()]


def struck(rig, method, *, happens=True):
    """What a call of the method met, of all that it might have."""
    return [each.effect for each in rig.cloud.storage_faults(method) if happens and each.strike()]


def test_a_fault_is_counted_when_it_happens(rigged):
    rig = rigged(faults=[f"{INSERT}: return-503-after-256K x2"])
    found = [struck(rig, INSERT, happens=happens) for happens in (False, True, False)]
    rig.restart()
    found += [struck(rig, INSERT), struck(rig, INSERT)]
    assert found == [[], [LateRefusal(503, 262144)], [], [LateRefusal(503, 262144)], []]
    assert met(rig) == [2]


def test_of_two_calls_that_wait_for_it_one_meets_it(rig):
    rig.cloud.add_fault(f"{GET}: return-503 x1")
    first, second = (rig.cloud.storage_faults(GET)[0] for _ in range(2))
    assert (second.strike(), first.strike(), met(rig)) == (True, False, [1])
    rig.cloud.clear_faults()
    assert second.strike() is False


def test_calls_before_it_are_spared_whatever_restarts(rigged):
    rig = rigged(faults=["storage.objects.*: return-503 x1 after call 2"])
    found = [struck(rig, GET)]
    rig.restart()
    found += [struck(rig, INSERT), struck(rig, GET), struck(rig, GET)]
    assert found == [[], [], [StorageRefusal(503)], []]


def test_faults_of_tpus_and_of_storage_keep_apart(rig):
    rig.cloud.add_fault("*: latency 1s")
    rig.cloud.add_fault("storage.*: latency 1s")
    assert struck(rig, GET) == [StorageLatency(1.0)]
    rig.cloud.meet_fault("GetNode")
    assert met(rig) == [1, 1]


def test_where_no_fault_stands_nothing_is_written(rig):
    rig.cloud.add_fault(f"{GET}: return-503 x1")
    struck(rig, GET)
    before = rig.connection.total_changes
    assert [struck(rig, method) for method in METHODS] == [[]] * len(METHODS)
    assert rig.connection.total_changes == before
