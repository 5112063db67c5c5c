"""When a slice is overdue: by its labels, the API's times and what its workers report alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.agent.tools import lifetime
from tpuctl.models import duration

NOW_S = 1_800_000_000.0
IDLE = {lifetime.IDLE_LABEL: "30m"}
durations = st.integers(1, lifetime.MOST_LABEL_S)


def told(active_ago_s: float, looked_ago_s: float = 0.0) -> str:
    return lifetime.activity_text(NOW_S - active_ago_s, NOW_S - looked_ago_s)


@given(durations)
def test_a_duration_comes_back_from_its_label_and_means_the_same_to_people(seconds):
    text = lifetime.label_text(seconds)
    assert lifetime.label_seconds(text) == seconds == duration.parse_duration(text)
    assert set(text) <= set("0123456789dhms"), "what a label can hold"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(4 * 3600, "4h"), (5400, "1h30m"), (90, "1m30s"), (0.2, "1s"), (1.5, "2s"), (604800, "7d")],
)
def test_labels_are_read_as_they_were_typed(seconds, text):
    assert lifetime.label_text(seconds) == text


@pytest.mark.parametrize("text", ["", "4", "h", "soon", "4h ", "1.5h", "0s", "-1h", "9" * 30 + "d"])
def test_what_is_not_a_duration_deletes_nothing(text):
    labels = {lifetime.TTL_LABEL: text, lifetime.IDLE_LABEL: text}
    assert lifetime.label_seconds(text) is None
    assert lifetime.expires_s(labels, NOW_S) is None
    assert lifetime.overdue_text(labels, 1.0, [told(1e6)], 1, NOW_S) is None


@given(durations, st.integers(1, 4_000_000_000), st.integers(0, 10_000_000_000))
def test_a_slice_is_overdue_from_its_deadline_on_and_not_a_second_before(ttl_s, created_s, now_s):
    labels = {lifetime.TTL_LABEL: lifetime.label_text(ttl_s)}
    why = lifetime.overdue_text(labels, created_s, [], 1, now_s)
    assert (why is not None) == (now_s >= created_s + ttl_s)


def test_a_node_whose_creation_is_not_known_has_no_deadline():
    assert lifetime.expires_s({lifetime.TTL_LABEL: "4h"}, 0.0) is None


@given(
    st.lists(st.tuples(st.integers(0, 100_000), st.integers(0, 400)), min_size=1, max_size=4),
    st.integers(1, 5),
)
def test_it_is_idle_only_when_every_worker_says_so_and_has_just_looked(ages, workers):
    reports = [told(active, looked) for active, looked in ages]
    is_idle = lifetime.is_idle_for_too_long(IDLE, reports, workers, NOW_S)
    are_known = len(ages) >= workers and all(looked <= lifetime.STALE_S for _, looked in ages)
    assert is_idle == (are_known and min(active for active, _ in ages) >= 1800)


@pytest.mark.parametrize("text", ["", "x", "1", "1 2 3", "nan nan", "-1 5", "1e9 1e9"])
def test_a_report_that_cannot_be_understood_is_not_one_of_an_idle_worker(text):
    assert lifetime.idle_since_s([text], 1, NOW_S) is None
    assert not lifetime.is_idle_for_too_long(IDLE, [told(1e6), text], 2, NOW_S)


def test_the_reason_names_the_label():
    assert lifetime.overdue_text({lifetime.TTL_LABEL: "4h"}, 1.0, [], 1, NOW_S) == (
        "its ttl of 4h is over"
    )
    assert lifetime.overdue_text(IDLE, 1.0, [told(1800)], 1, NOW_S) == (
        "no worker was used for 30m"
    )
