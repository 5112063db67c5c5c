"""Percentiles of durations, within one percent of the exact ones."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.operations.load.duration_histogram import GROWTH, SHORTEST_S, DurationHistogram


def histogram_of(durations):
    histogram = DurationHistogram()
    for duration in durations:
        histogram.add(duration)
    return histogram


@given(
    st.lists(st.floats(SHORTEST_S, 3600), min_size=1, max_size=200),
    st.sampled_from([0, 1, 50, 90, 99, 99.9, 100]),
)
def test_a_percentile_is_the_nearest_rank_or_up_to_one_percent_more(durations, percent):
    exact = sorted(durations)[max(1, math.ceil(percent / 100 * len(durations) - 1e-6)) - 1]
    found = histogram_of(durations).percentile_s(percent)
    assert exact * (1 - 1e-6) <= found <= exact * GROWTH * (1 + 1e-6)
    assert found <= max(durations)


def test_of_a_thousand_the_last_percentile_leaves_out_one():
    histogram = histogram_of([0.001] * 999 + [5.0])
    assert histogram.percentile_s(99.9) == pytest.approx(0.001, rel=0.011)
    assert (histogram.percentile_s(99.91), histogram.max_s) == (5.0, 5.0)
    assert histogram.mean_s == pytest.approx((0.999 + 5) / 1000)


def test_nothing_has_no_percentile():
    histogram = DurationHistogram()
    assert (histogram.percentile_s(50), histogram.mean_s, histogram.buckets()) == (None, None, [])


def test_buckets_count_every_duration_and_end_after_it():
    durations = [0.0, 1e-7, 1e-6, 0.0101, 0.0101, 7.5]
    buckets = histogram_of(durations).buckets()
    assert [count for _, count in buckets] == [3, 2, 1]
    assert [end for end, _ in buckets] == sorted(end for end, _ in buckets)
    assert buckets[1][0] >= 0.0101 > buckets[1][0] / GROWTH**1.001
