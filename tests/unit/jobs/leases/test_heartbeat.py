"""Heartbeats: who lives, who is taken for dead, and what that one may still do."""

import os
from pathlib import Path

import pytest

from tpuctl.errors import TransientError
from tpuctl.jobs import client
from tpuctl.jobs.leases import lease
from tpuctl.jobs.leases.heartbeat import DEFAULT_TERMS, HEARTBEATS, Heartbeat, HeartbeatWatcher
from tpuctl.jobs.leases.lease import LeaseLostError
from tpuctl.jobs.local import supervisor_lock
from tpuctl.store import open_store


class Time:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def time_():
    return Time()


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "bucket"))


@pytest.fixture
def beating(store, time_):
    """`beating(holder)`: a heartbeat that was renewed once."""

    def make(holder):
        heart = Heartbeat(store, holder, {"host": "here"}, time_)
        heart.beat()
        return heart

    return make


def test_whoever_is_taken_for_dead_has_stopped_acting_before(beating, store, time_):
    heart, watcher = beating("seat1-a"), HeartbeatWatcher(time_)
    watcher.look(store)
    dead_at = None
    while dead_at is None:
        time_.now_s += 1.0
        watcher.look(store)
        if watcher.is_dead("seat1-a"):
            dead_at = time_.now_s
        assert not (dead_at and heart.is_fresh())
    assert dead_at - 100.0 == DEFAULT_TERMS.dead_after_s < 30.0 - 2 * DEFAULT_TERMS.renew_s / 5


def test_a_renewal_is_seen_and_counts_from_then(beating, store, time_):
    heart, watcher = beating("seat1-a"), HeartbeatWatcher(time_)
    for _ in range(8):
        watcher.look(store)
        assert not watcher.is_dead("seat1-a")
        assert heart.is_fresh()
        time_.now_s += DEFAULT_TERMS.renew_s
        heart.beat()


def test_a_watcher_that_was_stopped_has_not_seen_anybody_be_silent(beating, store, time_):
    heart, watcher = beating("seat1-a"), HeartbeatWatcher(time_)
    watcher.look(store)
    time_.now_s += 1000.0
    assert not watcher.is_dead("seat1-a")
    heart.beat()
    watcher.look(store)
    assert not watcher.is_dead("seat1-a")


def test_a_holder_that_left_or_whose_seat_is_ours_is_dead_at_once(beating, store, time_):
    beating("seat1-a")
    left = beating("seat2-b")
    left.leave()
    watcher = HeartbeatWatcher(time_, frozenset({"seat1"}))
    watcher.look(store)
    assert [watcher.is_dead(holder) for holder in ("seat1-a", "seat2-b", "")] == [True] * 3


def test_either_the_burial_or_the_renewal_comes_first(beating, store, time_):
    late, dead, watcher = beating("seat1-a"), beating("seat2-b"), HeartbeatWatcher(time_)
    watcher.look(store)
    late.beat()
    assert not watcher.delete_heartbeat(store, "seat1-a")
    assert watcher.delete_heartbeat(store, "seat2-b")
    late.check()
    with pytest.raises(LeaseLostError):
        dead.beat()
    with pytest.raises(LeaseLostError):
        dead.check()
    assert [entry.key for entry in store.list(HEARTBEATS)] == [f"{HEARTBEATS}seat1-a"]


def test_nothing_is_done_while_the_heartbeat_is_not_renewed(beating, time_):
    heart = beating("seat1-a")
    time_.now_s += DEFAULT_TERMS.hold_s - 0.1
    heart.check()
    time_.now_s += 0.1
    with pytest.raises(TransientError, match="until the leases are renewed"):
        heart.check()
    heart.beat()
    heart.check()


def test_a_renewal_whose_reply_was_lost_is_found_again(beating, store, time_):
    heart = beating("seat1-a")
    store.put_if_generation(f"{HEARTBEATS}seat1-a", b"{}", heart.generation)
    heart.beat()
    assert heart.is_fresh()


def held(store, job_id: str, holder: str) -> None:
    lease.take(store, lease.offer(store, job_id, "me"), holder)


def written_before(store, key: str, seconds: float) -> None:
    """Make an object of the directory look that much older."""
    path = Path(store.url) / key
    os.utime(path, (path.stat().st_atime - seconds, path.stat().st_mtime - seconds))


def test_jobs_without_a_live_supervisor_are_known_by_the_services_times(beating, store, tmp_path):
    held(store, "left", "seat1-a")
    held(store, "silent", "seat2-b")
    held(store, "cared", "seat3-c")
    lease.offer(store, "offered", "me")
    beating("seat2-b")
    beating("seat3-c")
    written_before(store, f"{HEARTBEATS}seat2-b", DEFAULT_TERMS.dead_after_s + 1.0)
    home = tmp_path / "home"
    assert client.unsupervised_jobs(store, home, "here") == ["left", "offered", "silent"]
    with supervisor_lock.hold(home, "here"):
        assert client.unsupervised_jobs(store, home, "here") == []


def test_the_only_supervisor_is_known_to_be_gone_by_this_machines_clock(beating, store, tmp_path):
    held(store, "silent", "seat1-a")
    beating("seat1-a")
    assert client.unsupervised_jobs(store, tmp_path / "home", "here") == []
    written_before(store, f"{HEARTBEATS}seat1-a", 90.0)
    assert client.unsupervised_jobs(store, tmp_path / "home", "here") == ["silent"]


def test_a_supervisor_of_this_machines_empty_seat_is_gone_however_fresh_its_beat(
    beating, store, tmp_path
):
    home = tmp_path / "home"
    with supervisor_lock.hold(home, "here") as place:
        held(store, "orphaned", f"{place}-a")
        beating(f"{place}-a")
    assert client.unsupervised_jobs(store, home, "here") == ["orphaned"]
