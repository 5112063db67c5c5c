"""Whoever adds which blocks: the same bits as a tree written down as lists."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from localsim.core.collectives import sums
from localsim.core.collectives.sums import Block


def added(values):
    """Neighbours first: pad to a power of two, fold, until one is left."""
    level = [*values, *[None] * ((1 << (len(values) - 1).bit_length()) - len(values))]
    while len(level) > 1:
        level = [
            left if right is None else left + right
            for left, right in zip(level[::2], level[1::2], strict=True)
        ]
    return level[0]


@given(st.data(), st.integers(1, 33))
def test_the_bits_do_not_depend_on_who_adds_what(data, size):
    owners = data.draw(st.lists(st.integers(0, 4), min_size=size, max_size=size))
    random = np.random.default_rng(size)
    values = (random.standard_normal(size) * 10.0 ** random.integers(-9, 9, size)).astype("f4")
    wanted = added(list(values))

    parts = {}
    for owner in set(owners):
        places = frozenset(place for place in range(size) if owners[place] == owner)
        gifts = {place: [values[place : place + 1]] for place in places}
        leaves = sums.leaves(places, gifts, lambda: np.empty(1, "f4"))
        parts |= {
            block: sums.total(block, size, leaves) for block in sums.owned_blocks(places, size)
        }

    assert sums.total(sums.whole_block(size), size, parts).tobytes() == wanted.tobytes()


def test_who_has_an_aligned_half_sends_one_block():
    assert sums.owned_blocks(frozenset({4, 5, 6, 7}), 16) == [Block(4, 4)]
    assert sums.owned_blocks(frozenset({0, 1, 2}), 3) == [Block(0, 4)]
    assert sums.owned_blocks(frozenset({1, 2}), 4) == [Block(1, 1), Block(2, 1)]
    assert sums.owned_blocks(frozenset(), 4) == []


def test_nothing_is_added_to_a_lonely_number():
    assert np.signbit(sums.total(sums.whole_block(1), 1, {Block(0, 1): np.array([-0.0])}))
