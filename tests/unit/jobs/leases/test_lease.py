"""Leases: who looks after which job."""

from dataclasses import replace

import pytest

from tpuctl.errors import PreconditionError
from tpuctl.jobs.leases import lease
from tpuctl.store import open_store


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "bucket"))


@pytest.fixture
def offered(store):
    return lease.offer(store, "j", "me")


def test_a_lease_changes_hands_once(store, offered):
    taken = lease.take(store, offered, "seat1-a")
    assert (taken.holder, taken.fence) == ("seat1-a", 1)
    assert lease.take(store, offered, "seat2-b") is None
    assert lease.list_leases(store, {}) == [taken] == [lease.load_lease(store, "j")]


def test_a_lease_is_dropped_by_its_holder_even_after_it_was_rung(store, offered):
    taken = lease.take(store, offered, "seat1-a")
    lease.notify_holder(store, "j")
    assert lease.load_lease(store, "j").generation != taken.generation
    lease.drop(store, taken)
    assert lease.load_lease(store, "j") is None
    lease.drop(store, taken)  # a second time is as good


def test_a_lease_in_other_hands_is_not_dropped(store, offered):
    first = lease.take(store, offered, "seat1-a")
    second = lease.take(store, first, "seat2-b")
    lease.drop(store, first)
    lease.release(store, first)
    assert lease.load_lease(store, "j") == second


def test_a_released_lease_keeps_its_fence(store, offered):
    lease.release(store, lease.take(store, offered, "seat1-a"))
    found = lease.load_lease(store, "j")
    assert (found.holder, found.fence) == ("", 1)


def test_ringing_changes_nothing_but_the_generation(store, offered):
    lease.notify_holder(store, "j")
    found = lease.load_lease(store, "j")
    assert found != offered
    assert replace(found, generation=offered.generation) == offered
    lease.notify_holder(store, "nobody-000000")


@pytest.mark.parametrize(("known", "fence"), [(None, 7), (3, 7), (9, 9)])
def test_a_job_that_begins_anew_is_offered_above_every_earlier_fence(store, known, fence):
    if known is not None:
        held = lease.offer(store, "j", "me")
        for number in range(known):
            held = lease.take(store, held, f"seat-{number}")
    lease.reoffer(store, "j", "me", 7)
    lease.reoffer(store, "j", "me", 7)
    found = lease.load_lease(store, "j")
    assert (found.holder, found.fence, found.owner) == ("", fence, "me")


def test_a_lease_that_is_known_is_not_read_again(store, offered):
    known = {"j": replace(offered, holder="as known")}
    assert lease.list_leases(store, known) == [known["j"]]


def test_a_lease_that_changes_all_the_time_cannot_be_offered(store, offered):
    class Busy:
        def __getattr__(self, name):
            return getattr(store, name)

        def put_if_generation(self, key, data, generation):
            raise PreconditionError("it changed")

    with pytest.raises(PreconditionError, match="the lease of 'j' changes too fast"):
        lease.reoffer(Busy(), "j", "me", 1)
