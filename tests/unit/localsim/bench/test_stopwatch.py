"""A measurement takes about as long as it may, whatever is measured."""

import itertools

import pytest

from localsim.bench.stopwatch import ENOUGH_S, MOST_CALLS, median_s, more_calls


class Clock:
    """Goes on by what each call takes, when it is called."""

    def __init__(self, *calls_s):
        self.now_s = 0.0
        self.calls_s = iter(calls_s)
        self.calls = 0

    def __call__(self):
        return self.now_s

    def call(self):
        self.calls += 1
        self.now_s += next(self.calls_s)


def test_the_first_call_warms_up_and_does_not_count():
    clock = Clock(100.0, 0.1, 0.3, 0.2, 0.5, 0.4)
    assert median_s(clock.call, clock) == pytest.approx(0.3)
    assert clock.calls == 6


def test_what_is_slow_is_measured_once():
    clock = Clock(3.0, 2.0)
    assert median_s(clock.call, clock) == 2.0


def test_what_is_fast_is_measured_many_times_but_not_for_ever():
    clock = Clock(*itertools.repeat(1e-6, 1000))
    median_s(clock.call, clock)
    assert clock.calls == 2 + MOST_CALLS


@pytest.mark.parametrize("first_s", [0.0, 1e-4, 0.01, 0.05, 0.2, 1.0, 60.0])
def test_all_calls_together_take_what_is_enough(first_s):
    calls = more_calls(first_s)
    assert calls * first_s <= ENOUGH_S
    assert calls % 2 == 0
