"""A supervisor that was stopped past its lease and goes on: nothing that it does has an effect."""

from dataclasses import replace

import pytest

from tpuctl.errors import TransientError
from tpuctl.jobs.interfaces import Backends
from tpuctl.jobs.leases import lease
from tpuctl.jobs.leases.fence import fenced_backends, lease_check
from tpuctl.jobs.leases.heartbeat import Heartbeat, HeartbeatWatcher
from tpuctl.jobs.leases.lease import LeaseLostError
from tpuctl.store import open_store

WRITES = {
    "a log": lambda outside: outside.store.put_if_absent("tpuctl/jobs/j/logs/a1/w0/0", b"x"),
    "a record": lambda outside: outside.store.put_if_generation("tpuctl/records/j", b"x", 0),
    "a removal": lambda outside: outside.store.delete("tpuctl/stockouts/z/t"),
}
CALLS = {
    "a request": lambda outside: outside.tpu.create_queued_resource(None, request_id="r"),
    "a deletion": lambda outside: outside.tpu.delete_queued_resource("z", "n", force=True),
    "an update": lambda outside: outside.tpu.update_node("z", "n", {}),
}
BOTH = WRITES | CALLS


class Tpu:
    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *_args, **_options: self.calls.append(name)


class Stopped:
    """A supervisor with the lease of job `j`; others may take it over."""

    def __init__(self, store):
        self.now_s, self.store, self.tpu = 0.0, store, Tpu()
        self.heart = Heartbeat(store, "seat1-a", {}, lambda: self.now_s)
        self.heart.beat()
        self.lease = lease.take(store, lease.offer(store, "j", "me"), "seat1-a")
        outside = Backends("here", "z", "b", "http://b", store, self.tpu, None, "key", open_store)
        self.outside = fenced_backends(outside, self.lease, self.heart)

    def for_s(self, seconds):
        self.now_s += seconds

    def taken_over(self):
        watcher = HeartbeatWatcher(lambda: self.now_s, frozenset({"seat1"}))
        watcher.look(self.store)
        assert watcher.delete_heartbeat(self.store, "seat1-a")
        assert lease.take(self.store, self.lease, "seat2-b")

    def state(self):
        return [(each.key, each.generation) for each in self.store.list()], self.tpu.calls


@pytest.fixture
def stopped(tmp_path):
    store = open_store(str(tmp_path))
    store.put_if_absent("tpuctl/stockouts/z/t", b"x")
    return Stopped(store)


@pytest.mark.parametrize("kind", BOTH)
def test_past_its_lease_it_does_not(stopped, kind):
    stopped.for_s(15.0)
    before = stopped.state()
    with pytest.raises(TransientError):
        BOTH[kind](stopped.outside)
    assert stopped.state() == before


@pytest.mark.parametrize("kind", BOTH)
def test_after_a_takeover_it_never_does_again(stopped, kind):
    stopped.for_s(60.0)
    stopped.taken_over()
    before = stopped.state()
    with pytest.raises(LeaseLostError):
        stopped.heart.beat()
    with pytest.raises(LeaseLostError):
        BOTH[kind](stopped.outside)
    assert stopped.state() == before


@pytest.mark.parametrize("kind", CALLS)
def test_slices_are_left_alone_once_the_lease_itself_says_so(stopped, kind):
    """However fresh the heartbeat: `job retry` puts a lease into nobody's hands."""
    lease.reoffer(stopped.store, "j", "me", 9)
    with pytest.raises(LeaseLostError):
        CALLS[kind](stopped.outside)
    assert stopped.tpu.calls == []


def test_a_lease_that_was_rung_is_still_ours(stopped):
    lease.notify_holder(stopped.store, "j")
    CALLS["a request"](stopped.outside)
    assert stopped.tpu.calls == ["create_queued_resource"]
    assert replace(lease.load_lease(stopped.store, "j"), generation=0) == replace(
        stopped.lease, generation=0
    )


def test_reading_needs_no_lease(stopped):
    stopped.for_s(60.0)
    assert stopped.outside.store.head("tpuctl/stockouts/z/t")
    assert list(stopped.outside.store.list("tpuctl/leases/"))
    stopped.outside.tpu.get_queued_resource("z", "n")
    stopped.outside.tpu.get_node("z", "n")


def test_what_asks_before_each_message_says_no_as_soon_as_the_lease_is_gone(stopped):
    confirm = lease_check(stopped.store, stopped.lease, stopped.heart)
    confirm()
    stopped.for_s(15.0)
    with pytest.raises(TransientError):
        confirm()
    stopped.heart.beat()
    confirm()
    lease.reoffer(stopped.store, "j", "me", 9)
    with pytest.raises(LeaseLostError):
        confirm()
