"""Simulated time goes on after a restart, and never back."""

import asyncio
import sqlite3

import pytest

from localsim import clock as clocks
from localsim.clock import Clock, ClockReading
from localsim.rules.db.timekeeping import last_reading
from unit.localsim.test_world import NODE, SPEC, ZONE, advance, world_of


@pytest.fixture
def real(monkeypatch):
    """Real time in the test's hand: `real.now` is both the time of day and the monotonic clock."""

    class Real:
        now = 5000.0

        def time(self):
            return self.now

        monotonic = time

    found = Real()
    monkeypatch.setattr(clocks, "time", found)
    return found


def test_a_clock_without_a_past_shows_the_time_of_day(real):
    assert Clock().now() == Clock(scale=60).now() == 5000.0


def test_time_passed_while_nothing_ran_as_fast_as_before(real):
    first = Clock(scale=60)
    first.advance(1000)
    reading = first.reading()
    real.now += 10
    assert first.now() == Clock(scale=1, last=reading).now() == 5000 + 1000 + 600


def test_a_real_clock_that_was_set_back_does_not_move_time_back(real):
    reading = Clock().reading()
    real.now -= 100
    assert Clock(last=reading).now() == 5000


def test_a_manual_clock_stands_still_while_nothing_runs(real):
    first = Clock(manual_start_s=9000)
    first.advance(5)
    reading = first.reading()
    real.now += 100
    assert Clock(manual_start_s=9000, last=reading).now() == 9005


def test_a_long_sleep_ends_before_timestamps_do(real):
    asleep = ClockReading(now_s=5000, wall_s=0, scale=1e9)
    assert Clock(last=asleep).now() == 5000 + clocks.MAX_ADVANCE_S


def test_time_ends_before_timestamps_do(real):
    clock = Clock(scale=1e308)
    real.now += 1e10
    assert clock.now() == clocks.LATEST_S
    with pytest.raises(ValueError, match="beyond the year 9000"):
        clock.advance(1)


def test_what_the_clock_was_advanced_by_is_on_disk_at_once(tmp_path):
    async def test():
        async with world_of(tmp_path) as (world, _):
            await advance(world, 7)  # nothing is due
            return world.clock.now()

    shown_s = asyncio.run(test())
    assert reading_in(tmp_path).now_s == shown_s


def reading_in(state_dir):
    connection = sqlite3.connect(state_dir / "state.sqlite")
    try:
        return last_reading(connection)
    finally:
        connection.close()


def test_an_acknowledged_call_is_never_later_than_the_next_start(tmp_path):
    async def test():
        async with world_of(tmp_path) as (world, _):
            world.clock.advance(7)
            await world.run(lambda cloud: cloud.create_node(ZONE, "a", SPEC))
            return world.cloud.get_node(NODE).create_time_s

    created_s = asyncio.run(test())
    assert Clock(manual_start_s=0.0, last=reading_in(tmp_path)).now() >= created_s


def test_a_pause_ends_when_all_of_it_has_passed():
    async def test():
        clock = Clock(manual_start_s=100.0)
        pause = asyncio.ensure_future(clock.pause(5))
        ended = []
        for seconds in (3, 1, 1):
            await _turns()
            clock.advance(seconds)
            await _turns()
            ended.append(pause.done())
        return ended

    assert asyncio.run(test()) == [False, False, True]


async def _turns():
    """Let whoever can go on do so."""
    for _ in range(10):
        await asyncio.sleep(0)
