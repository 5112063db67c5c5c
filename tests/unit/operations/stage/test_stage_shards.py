"""Shards are disjoint, together they are everything, and names alone decide."""

from hypothesis import given
from hypothesis import strategies as st

from tpuctl.operations.stage.workers.staging import shard

names = st.lists(st.text(min_size=1, max_size=5), unique=True, max_size=40)


def parts(items, count):
    return [shard(items, index, count) for index in range(count)]


@given(names, st.integers(1, 9))
def test_every_item_is_in_one_part(items, count):
    found = parts(items, count)
    assert sorted(item for part in found for item in part) == sorted(items)
    assert max(map(len, found)) - min(map(len, found)) <= 1


@given(names, st.integers(1, 9), st.randoms())
def test_the_order_they_come_in_does_not_matter(items, count, random):
    shuffled = list(items)
    random.shuffle(shuffled)
    assert parts(shuffled, count) == parts(items, count)
