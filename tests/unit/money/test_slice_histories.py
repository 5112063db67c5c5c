"""What scripted histories cost, whoever saw which part of them, and in whatever order."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.ledger.slice_facts import collect_facts, life_of
from tpuctl.models.money.cost_pieces import cost_pieces, day_cuts, label_cuts
from tpuctl.models.money.price_book import DatedPrice, PriceBook, parse_factors
from unit.money.histories import DAY_S, HISTORIES, MONTH_S, SPOT_16, ZONE, at

CHEAPER = DatedPrice(
    "v5e", "spot", "us-west4", "any", 0.5, MONTH_S + DAY_S, "2026-11-02", "a newer table"
)


def lives(facts, now):
    found = collect_facts(facts)
    return [life_of(each, at(now)) for _, each in sorted(found.items())]


def bill(history, facts):
    """USD, hours and whether they are an estimate."""
    book = PriceBook((CHEAPER,), parse_factors(history.factors))
    made = list(
        cost_pieces(lives(facts, history.now), book, at(history.since), at(history.until), day_cuts)
    )
    prices = [piece.usd() for piece in made]
    usd = None if None in prices else round(sum(prices), 4)
    return usd, round(sum(piece.seconds for piece in made), 3), any(p.is_estimate for p in made)


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: history.title)
def test_a_history_costs_what_the_table_says_to_the_cent(history):
    usd, _, is_estimate = bill(history, history.facts)
    assert (usd, is_estimate) == (history.usd, history.is_estimate)


def test_there_are_twenty_histories_and_their_titles_differ():
    assert len({history.title for history in HISTORIES}) >= 20


@given(history=st.sampled_from(HISTORIES), data=st.data())
def test_any_order_any_repetition_and_any_split_gives_the_same_bill(history, data):
    repeated = data.draw(st.lists(st.sampled_from(history.facts)))
    shuffled = data.draw(st.permutations([*history.facts, *repeated]))
    cut = data.draw(st.integers(0, len(shuffled)))
    assert bill(history, shuffled) == bill(history, history.facts)
    one = collect_facts(shuffled[:cut])
    both = collect_facts(shuffled[cut:], one)
    assert {key: life_of(each, at(9)) for key, each in both.items()} == {
        key: life_of(each, at(9)) for key, each in collect_facts(history.facts).items()
    }


@given(
    st.lists(
        st.tuples(st.floats(0, 50), st.sampled_from(["READY", "STOPPED", "PREEMPTED", "CREATING"])),
        min_size=1,
    )
)
def test_a_slice_is_billed_between_looks_that_saw_it_ready_and_never_twice(looks):
    facts = [
        {"slice": "7", "what": "seen", "state": state, "at_s": at(hours)} for hours, state in looks
    ]
    life = life_of(collect_facts(facts)["7"], at(60))
    ends = [(each.begin.at_s, each.end.at_s) for each in life.intervals]
    assert all(begin <= end for begin, end in ends)
    assert all(before[1] <= after[0] for before, after in pairwise(ends))
    ready = [at(hours) for hours, state in looks if state == "READY"]
    others = {at(hours) for hours, state in looks if state != "READY"}
    assert all(any(b <= when <= e for b, e in ends) for when in ready if when not in others)


def test_a_piece_knows_how_long_it_is_at_least_and_at_most():
    (lost,) = [each for each in HISTORIES if each.title == "deleted by somebody else, unseen"]
    (life,) = lives(lost.facts, 9)
    (piece,) = cost_pieces([life], PriceBook(), at(0), at(9))
    assert (piece.least_s, piece.seconds, piece.most_s) == (3600, 4500, 5400)
    assert (life.is_running, life.is_ended) == (False, True)


def test_pieces_are_cut_at_midnight_and_where_labels_change():
    (labelled,) = [each for each in HISTORIES if each.title == "its labels change"]
    (life,) = lives(labelled.facts, 9)
    found = cost_pieces([life], PriceBook(), at(0), at(9), label_cuts)
    assert [(life.labels_at(p.begin_s), p.seconds / 3600) for p in found] == [
        ({"team": "a"}, 1.0),
        ({"team": "b"}, 1.0),
    ]
    (several,) = [each for each in HISTORIES if each.title == "one day of several"]
    found = cost_pieces(lives(several.facts, 90), PriceBook(), at(0), at(99), day_cuts)
    assert [piece.seconds / 3600 for piece in found] == [21, 24, 12]


def test_what_it_would_have_cost_on_demand():
    (first,) = cost_pieces(lives(HISTORIES[0].facts, 9), PriceBook(), at(0), at(9))
    assert (first.usd(), first.on_demand_usd_per_hour) == (19.424, 19.2)


def test_a_line_of_a_newer_version_is_left_out():
    lines = [*HISTORIES[0].facts, {"slice": "7", "what": "new"}, {"slice": 7}, {"what": "at"}]
    lines += [{"slice": "7", "what": "at", "moment": "hibernate", "at_s": 3}]
    assert collect_facts(lines) == collect_facts(HISTORIES[0].facts)


def test_a_slice_of_a_type_that_nobody_knows_has_no_price():
    assert PriceBook().price_at("v99-1", ZONE, SPOT_16[1], at(1)) is None
