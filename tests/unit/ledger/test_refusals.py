"""What many have seen of capacity, each event once."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.ledger.observer import observer_id
from tpuctl.ledger.refusals import event_of, line_of, load_events, note_events
from tpuctl.models.capacity.capacity_event import CapacityEvent, CapacityEventKind, RefusalCause
from tpuctl.models.capacity.known_events import DAY_S, distinct
from tpuctl.store import open_store

T = 1_795_000_000.0  # 2026-11-18T11:06:40Z
REFUSED = CapacityEvent(
    "k1", CapacityEventKind.REFUSED, T, "v5litepod-16", "us-west4-a", "spot",
    cause=RefusalCause.STOCKOUT,
)  # fmt: skip
GRANTED = replace(REFUSED, key="k2", kind=CapacityEventKind.GRANTED, cause=None, after_s=60.0)
KINDS, CAUSES = list(CapacityEventKind), [*RefusalCause, None]
EVENTS = st.builds(
    CapacityEvent,
    key=st.sampled_from("abc"),
    kind=st.sampled_from(KINDS),
    time_s=st.sampled_from([T, T + 1, T + 2]),
    accelerator_type=st.just("v5litepod-16"),
    zone=st.sampled_from(["us-west4-a", "us-west4-b"]),
    provisioning=st.just("spot"),
    cause=st.sampled_from(CAUSES),
    after_s=st.sampled_from([None, 1.0, 2.0]),
)


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "bucket"))


def test_what_two_noted_is_there_once(store):
    assert note_events(store, "anna", [REFUSED, GRANTED]) == 2
    note_events(store, "ben", [GRANTED, replace(REFUSED, time_s=T + 60)])
    assert load_events(store, T + 100) == [GRANTED, replace(REFUSED, time_s=T + 60)]


def test_what_is_older_than_30_days_is_not_looked_at(store):
    old = replace(GRANTED, time_s=T - 31 * DAY_S)
    note_events(store, "anna", [old, REFUSED])
    assert load_events(store, T, days=365) == [REFUSED]
    assert load_events(store, T + 2 * DAY_S, days=1) == []


def test_the_clock_of_another_observer_may_be_ahead_by_a_day(store):
    ahead, wrong = replace(REFUSED, time_s=T + 3600), replace(GRANTED, time_s=T + 3 * DAY_S)
    note_events(store, "anna", [ahead, wrong])
    assert load_events(store, T) == [ahead]


def test_the_better_account_of_an_event_is_kept():
    quota = replace(REFUSED, cause=RefusalCause.QUOTA, time_s=T + 5)
    assert distinct([REFUSED, quota]) == [quota]
    assert distinct([replace(GRANTED, after_s=None), GRANTED]) == [GRANTED]
    assert distinct([GRANTED, replace(GRANTED, time_s=T + 9)]) == [GRANTED]


@given(st.lists(EVENTS, max_size=8), st.randoms())
def test_the_order_and_repetitions_do_not_matter(events, random):
    shuffled = [*events, *events]
    random.shuffle(shuffled)
    found = distinct(shuffled)
    assert found == distinct(events) == distinct(found)
    assert {(event.key, event.kind) for event in found} == {(e.key, e.kind) for e in events}


@given(EVENTS)
def test_a_line_is_its_event(event):
    is_whole = event.kind != CapacityEventKind.REFUSED or event.cause is not None
    assert event_of(line_of(event)) == (event if is_whole else None)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "evaporated"}, {"cause": "weather"}, {"time_s": True}, {"time_s": float("nan")},
        {"zone": 7}, {"key": ""}, {"after_s": "long"}, {"cause": None}, {"slices": None},
    ],
)  # fmt: skip
def test_a_line_that_this_version_does_not_know_is_left_out(change):
    assert event_of({**line_of(REFUSED), **change}) is None


def test_an_observer_is_random_lasting_and_private(tmp_path):
    found = observer_id(tmp_path / "home")
    assert observer_id(tmp_path / "home") == found != observer_id(tmp_path / "other")
    assert (tmp_path / "home" / "observer").stat().st_mode & 0o777 == 0o600
    (tmp_path / "home" / "observer").write_text("../../x\n")
    assert "/" not in observer_id(tmp_path / "home")
