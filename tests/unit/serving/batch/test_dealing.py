"""Which worker does which unit: all are dealt, none twice, and help covers what is left."""

from hypothesis import given
from hypothesis import strategies as st

from tpuctl.serving.batch.dealing import next_to_help, own_share

COUNTS = st.integers(0, 200)
WORKERS = st.integers(1, 40)


@given(COUNTS, WORKERS)
def test_each_unit_is_in_one_share(count, workers):
    shares = [own_share(range(count), worker, workers) for worker in range(workers)]
    assert [unit for share in shares for unit in share] == list(range(count))
    sizes = {len(share) for share in shares}
    assert max(sizes) - min(sizes) <= 1


@given(COUNTS, WORKERS, st.data())
def test_a_helper_reaches_every_unit_that_is_not_done(count, workers, data):
    done = data.draw(st.sets(st.integers(0, max(0, count - 1))))
    worker = data.draw(st.integers(0, workers - 1))
    tried = set()
    while (unit := next_to_help(range(count), done, tried, worker, workers)) is not None:
        assert unit not in tried
        tried.add(unit)
    assert tried == set(range(count)) - done


def test_helpers_begin_at_different_places():
    firsts = {next_to_help(range(100), (), (), worker, 4) for worker in range(4)}
    assert firsts == {99, 74, 49, 24}
