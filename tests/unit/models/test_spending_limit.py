"""What slices of a context may cost: in an hour, and until the month ends."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.models.limits.spending_limit import (
    ContextSpending,
    PricedSlices,
    SpendingLimit,
    excess_text,
    month_end_s,
    month_start_s,
    raised_limit,
    usd_left,
)

HOUR_S = 3600.0
NOW_S = datetime(2026, 11, 30, 14, tzinfo=UTC).timestamp()
"""Ten hours before the month ends."""
HOURLY = SpendingLimit("lab", max_usd_per_hour=20.0)
MONTHLY = SpendingLimit("lab", max_usd_per_month=500.0)
prices = st.floats(0, 1000)
some_slices = st.builds(
    PricedSlices,
    prices,
    st.none() | st.floats(NOW_S - 5 * HOUR_S, NOW_S + 50 * HOUR_S),
    st.none() | prices,
)
spendings = st.builds(
    ContextSpending,
    st.just(NOW_S),
    st.lists(some_slices, max_size=4).map(tuple),
    st.just(0),
    prices,
)
limits = st.builds(SpendingLimit, st.just("lab"), st.none() | prices, st.none() | prices)


def spent(*usd_per_hour: float, month_usd: float = 0.0) -> ContextSpending:
    return ContextSpending(NOW_S, tuple(map(PricedSlices, usd_per_hour)), month_usd=month_usd)


def test_an_hour_counts_what_runs_and_the_new_one():
    assert excess_text(HOURLY, spent(4.8, 5.4), PricedSlices(9.8)) is None
    assert excess_text(HOURLY, spent(4.8, 5.4), PricedSlices(9.9)) == (
        "9.90 USD/h more than the 10.20 USD/h of now exceed the limit of context 'lab', 20.00 USD/h"
    )


def test_a_month_counts_its_total_and_what_runs_until_it_ends():
    new = PricedSlices(20.0)
    assert excess_text(MONTHLY, spent(10.0, month_usd=200.0), new) is None
    assert excess_text(MONTHLY, spent(10.0, month_usd=200.5), new) == (
        "200.00 USD until 2026-12-01, the 200.50 USD of this month and the 100.00 USD of what runs "
        "until then exceed the limit of context 'lab', 500.00 USD a month"
    )


@pytest.mark.parametrize(
    ("slices", "usd"),
    [
        (PricedSlices(10.0), 100.0),
        (PricedSlices(10.0, end_s=NOW_S + 2 * HOUR_S), 20.0),
        (PricedSlices(10.0, end_s=NOW_S - 1), 0.0),
        (PricedSlices(10.0, end_s=NOW_S + 1000 * HOUR_S), 100.0),
        (PricedSlices(10.0, most_usd=30.0), 30.0),
        (PricedSlices(10.0, end_s=NOW_S + HOUR_S, most_usd=30.0), 10.0),
        (PricedSlices(10.0, most_usd=-1.0), 0.0),
    ],
)
def test_a_ttl_and_a_budget_end_what_a_slice_costs(slices, usd):
    assert slices.usd_until(NOW_S, month_end_s(NOW_S)) == usd


@pytest.mark.parametrize(
    ("moment", "begin", "end"),
    [
        ("2026-11-30T14:00", "2026-11-01", "2026-12-01"),
        ("2026-12-31T23:59", "2026-12-01", "2027-01-01"),
        ("2026-01-01T00:00", "2026-01-01", "2026-02-01"),
        ("2028-02-29T12:00", "2028-02-01", "2028-03-01"),
    ],
)
def test_a_month_is_one_of_the_calendar(moment, begin, end):
    moment_s = datetime.fromisoformat(f"{moment}+00:00").timestamp()
    days = [
        datetime.fromtimestamp(each, UTC).strftime("%Y-%m-%d")
        for each in (month_start_s(moment_s), month_end_s(moment_s))
    ]
    assert days == [begin, end]


@given(limits, spendings, some_slices)
def test_what_is_free_is_always_within_and_without_a_limit_all_is(limit, spending, new):
    assert excess_text(SpendingLimit("lab"), spending, new) is None
    if excess_text(limit, spending, new):
        assert limit.is_set
        assert excess_text(limit, replace(spending, slices=()), PricedSlices(0.0)) is None or (
            spending.month_usd > (limit.max_usd_per_month or 0.0)
        )


@given(limits, spendings, some_slices, some_slices)
def test_more_slices_never_make_room(limit, spending, new, more):
    if excess_text(limit, spending, new):
        fuller = replace(spending, slices=(*spending.slices, more))
        assert excess_text(limit, fuller, new)


@given(limits, spendings, some_slices)
def test_the_limit_of_the_hint_is_enough(limit, spending, new):
    if excess_text(limit, spending, new):
        words = raised_limit(limit, spending, [new]).split()
        given_usd = dict(zip(words[::2], map(float, words[1::2]), strict=True))
        hour, month = (given_usd.get(f"--usd-per-{unit}") for unit in ("hour", "month"))
        raised = SpendingLimit("lab", hour or limit.max_usd_per_hour,
                               month or limit.max_usd_per_month)  # fmt: skip
        assert excess_text(raised, spending, new) is None


def test_what_is_left_is_for_the_hour_alone():
    assert usd_left(HOURLY, spent(12.5)) == 7.5
    assert usd_left(HOURLY, spent(25.0)) == 0.0
    assert usd_left(MONTHLY, spent(12.5)) is None
