"""Which replica a request gets, and that its count is given back whatever happens."""

import asyncio
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpuctl.models.inference.service_record import ReplicaAddress
from tpuctl.proxy.error_answers import ProxyError
from tpuctl.proxy.proxy_limits import ProxyLimits
from tpuctl.proxy.replica_health import AnswerResult, ProbeResult
from tpuctl.proxy.replica_pool import ReplicaPool, ReplicaTarget

LIMITS = ProxyLimits(probes_back=1)


class Clock:
    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s


def target(number, *, is_routed=True, port=8000):
    address = ReplicaAddress("zone", "node", 0, f"10.0.0.{number}", None, port)
    return ReplicaTarget(number, address, is_routed=is_routed)


def pool_of(count, limits=LIMITS, clock=None):
    pool = ReplicaPool(limits, clock or Clock(), Random(3), [].append)
    pool.update([target(number) for number in range(1, count + 1)])
    for each in pool.replicas:
        pool.probe(each, ProbeResult.READY, "")
    return pool


def run(scenario):
    return asyncio.run(scenario)


def test_the_replica_with_the_fewest_requests_is_chosen_and_ties_are_spread():
    async def scenario():
        pool = pool_of(3)
        held = [await pool.admit({}) for _ in range(9)]
        assert pool.in_flight == {1: 3, 2: 3, 3: 3}
        with held[0] as first:
            pass
        again = await pool.admit({})
        assert again.replica is first
        for each in [*held[1:], again]:
            with each:
                pass
        chosen = Counter()
        for _ in range(300):
            with await pool.admit({}) as replica:
                chosen[replica.target.number] += 1
        assert min(chosen.values()) > 60
        assert pool.in_flight == {1: 0, 2: 0, 3: 0}

    run(scenario())


def test_a_count_is_given_back_once():
    async def scenario():
        pool = pool_of(1)
        admission = await pool.admit({})
        for _ in range(3):
            with admission:
                pass
        assert pool.in_flight == {1: 0}

    run(scenario())


def test_a_replica_that_failed_is_not_tried_again_by_the_same_request():
    async def scenario():
        pool = pool_of(2)
        failed = {}
        for _ in range(2):
            with await pool.admit(failed) as replica:
                assert replica not in failed
                failed[replica] = replica.stay
        with pytest.raises(ProxyError, match="no other replica"):
            await pool.admit(failed)
        pool.probe(replica, ProbeResult.UNREACHABLE, "refused")
        pool.probe(replica, ProbeResult.READY, "")  # it is back: another stay
        with await pool.admit(failed) as again:
            assert again is replica

    run(scenario())


def test_a_replica_that_drains_or_has_left_keeps_its_count_until_its_last_request_ends():
    async def scenario():
        pool = pool_of(2)
        held = [await pool.admit({}) for _ in range(4)]
        pool.update([target(1, is_routed=False), target(2)])
        assert pool.routed == (2,)
        for _ in range(5):
            with await pool.admit({}) as replica:
                assert replica.target.number == 2
        pool.update([target(2)])
        assert pool.in_flight == {1: 2, 2: 2}
        for each in held:
            with each:
                pass
        assert pool.in_flight == {2: 0}

    run(scenario())


def test_a_replica_at_a_new_address_is_another_one():
    async def scenario():
        pool = pool_of(1)
        with await pool.admit({}):
            pool.update([target(1, port=9000)])
            assert pool.routed == ()
            pool.probe(pool.replicas[1], ProbeResult.READY, "")
            with await pool.admit({}) as replica:
                assert replica.target.address.port == 9000
                assert pool.in_flight == {1: 2}
        assert pool.in_flight == {1: 0}

    run(scenario())


def test_an_outlier_is_removed_for_longer_each_time_and_the_last_one_never():
    async def scenario():
        clock = Clock()
        pool = pool_of(2, clock=clock)
        bad = pool.replicas[0]
        for length_s in (5, 10, 20, 40, 80, 160, 300, 300):
            for _ in range(3):
                assert pool.routed == (1, 2)
                pool.answer(bad, AnswerResult.FAILED, "broke off")
            assert pool.routed == (2,)
            clock.now_s += length_s - 0.5
            assert pool.routed == (2,)
            clock.now_s += 1
        pool.probe(pool.replicas[1], ProbeResult.UNREACHABLE, "gone")
        for _ in range(20):
            pool.answer(bad, AnswerResult.SERVER_ERROR)
        assert pool.routed == (1,)
        assert bad.health.removals_total == 12

    run(scenario())


def test_good_answers_in_between_are_forgiving():
    pool = pool_of(2)
    bad = pool.replicas[0]
    for _ in range(50):
        for result, times in ((AnswerResult.FAILED, 2), (AnswerResult.SERVER_ERROR, 4)):
            for _ in range(times):
                pool.answer(bad, result)
            pool.answer(bad, AnswerResult.GOOD)
    assert pool.routed == (1, 2)


def test_probes_take_a_replica_out_and_bring_it_back():
    pool = pool_of(1, replace(LIMITS, probes_back=2))
    replica = pool.replicas[0]
    for result in (ProbeResult.UNREACHABLE, ProbeResult.NOT_READY):
        pool.probe(replica, result, "why")
        assert pool.routed == ()
        pool.probe(replica, ProbeResult.READY, "")
        assert pool.routed == ()
        pool.probe(replica, ProbeResult.READY, "")
        assert pool.routed == (1,)
    pool.probe(replica, ProbeResult.TIMEOUT, "slow")
    assert pool.routed == (1,)
    pool.probe(replica, ProbeResult.TIMEOUT, "slow")
    assert pool.routed == ()
    pool.answer(replica, AnswerResult.UNREACHABLE, "refused")
    assert pool.replicas[0].health.why == "refused"


def test_a_replica_that_is_routed_again_is_probed_first():
    pool = pool_of(1)
    pool.update([target(1, is_routed=False)])
    pool.update([target(1)])
    assert pool.routed == ()
    pool.probe(pool.replicas[0], ProbeResult.READY, "")
    assert pool.routed == (1,)


def test_requests_that_wait_are_served_in_their_order():
    async def scenario():
        pool = pool_of(1, replace(LIMITS, in_flight=1))
        order = []

        async def request(number):
            with await pool.admit({}):
                order.append(number)
                await asyncio.sleep(0)

        await asyncio.gather(*(request(number) for number in range(30)))
        assert order == list(range(30))
        assert pool.in_flight == {1: 0}

    run(scenario())


def test_a_turn_that_comes_to_a_request_that_is_cancelled_goes_to_the_next():
    async def scenario():
        pool = pool_of(1, replace(LIMITS, in_flight=1))
        held = await pool.admit({})
        first, second = (asyncio.create_task(pool.admit({})) for _ in range(2))
        await asyncio.sleep(0)
        with held:
            pass
        first.cancel()  # its turn has come, and it does not know yet
        with await second:
            assert pool.in_flight == {1: 1}
        assert (pool.in_flight, pool.queued) == ({1: 0}, 0)

    run(scenario())


STEP = st.one_of(
    st.tuples(st.just("ask"), st.integers(0, 3)),
    st.tuples(st.just("end"), st.integers(0, 40)),
    st.tuples(st.just("cancel"), st.integers(0, 40)),
    st.tuples(st.just("probe"), st.integers(1, 4), st.sampled_from(list(ProbeResult))),
    st.tuples(st.just("answer"), st.integers(1, 4), st.sampled_from(list(AnswerResult))),
    st.tuples(st.just("routed"), st.sets(st.integers(1, 4)), st.sets(st.integers(1, 4))),
    st.tuples(st.just("later"), st.floats(0, 400)),
    st.tuples(st.just("loop"), st.integers(1, 3)),
)


class Played:
    """Requests at a pool, each of which is held until a step ends it."""

    def __init__(self, in_flight):
        self.clock = Clock()
        self.pool = pool_of(3, replace(LIMITS, in_flight=in_flight, queue_size=5), self.clock)
        self.most = in_flight
        self.ends, self.tasks, self.holding = [], [], Counter()

    async def _request(self, failures):
        failed = {}
        for _ in range(failures + 1):
            with await self.pool.admit(failed) as replica:
                failed[replica] = replica.stay
                self.holding[replica] += 1
                assert self.most is None or self.holding[replica] <= self.most
                self.ends.append(asyncio.get_running_loop().create_future())
                try:
                    await self.ends[-1]
                finally:
                    self.holding[replica] -= 1

    async def ask(self, failures):
        self.tasks.append(asyncio.create_task(self._request(failures)))

    async def end(self, place):
        if self.ends and not (end := self.ends[place % len(self.ends)]).done():
            end.set_result(None)

    async def cancel(self, place):
        if self.tasks:
            self.tasks[place % len(self.tasks)].cancel()

    async def probe(self, number, result):
        for each in self.pool.replicas:
            if each.target.number == number:
                self.pool.probe(each, result, "why")

    async def answer(self, number, result):
        for each in self.pool.replicas:
            if each.target.number == number:
                self.pool.answer(each, result, "why")

    async def routed(self, routed, listed):
        self.pool.update([target(n, is_routed=n in routed) for n in sorted(listed)])

    async def later(self, seconds):
        self.clock.now_s += seconds

    async def loop(self, turns):
        for _ in range(turns):
            await asyncio.sleep(0)

    def check(self):
        counted = {each: each.in_flight for each in self.pool.replicas if each.in_flight}
        assert counted == {each: count for each, count in self.holding.items() if count}

    async def close(self):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        assert set(self.pool.in_flight.values()) <= {0}
        assert self.pool.queued == 0


@settings(deadline=None)
@given(st.lists(STEP, max_size=60), st.one_of(st.none(), st.integers(1, 3)))
def test_counts_are_those_of_the_requests_that_are_held_whatever_happens(steps, in_flight):
    async def scenario():
        played = Played(in_flight)
        for step, *values in steps:
            await getattr(played, step)(*values)
            played.check()
        await played.close()

    run(scenario())
