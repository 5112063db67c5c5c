"""Chips that nobody holds for ten minutes, by the times of the samples."""

from tpuctl.jobs.notifications.idle_watch import IdleWatch
from tpuctl.jobs.workers.sample_tail import AgentSample
from tpuctl.operations.jobs.supervise import are_free

FREE, HELD = {"chip.held": 0.0}, {"chip.held": 1.0}
LOADED = {"chip.held": 1.0, "chip.duty_cycle_percent/0": 3.0}


def watched(*looks: tuple[float, list[dict]], attempt: int = 1) -> str:
    watch, text = IdleWatch(are_free), ""
    for time_s, workers in looks:
        samples = [(number, AgentSample(time_s, each)) for number, each in enumerate(workers)]
        text = watch.look(attempt, samples)
    return text


def test_ten_minutes_without_a_holder_are_told_with_the_workers():
    assert watched((0.0, [FREE, LOADED]), (599.0, [FREE, LOADED])) == ""
    assert watched((0.0, [FREE, LOADED]), (600.0, [FREE, LOADED])) == (
        "no process has held those of worker 0 for 10 min"
    )
    many = [FREE] * 7
    assert watched((0.0, many), (660.0, many)) == (
        "no process has held those of workers 0, 1, 2, 3, 4 and 2 more for 11 min"
    )


def test_a_holder_in_between_begins_the_time_again():
    assert watched((0.0, [FREE]), (300.0, [HELD]), (310.0, [FREE]), (900.0, [FREE])) == ""


def test_chips_that_were_not_measured_are_not_idle():
    assert watched((0.0, [{}]), (900.0, [{}])) == ""


def test_each_attempt_has_a_time_of_its_own():
    watch = IdleWatch(are_free)
    watch.look(1, [(0, AgentSample(0.0, FREE))])
    assert watch.look(2, [(0, AgentSample(700.0, FREE))]) == ""
