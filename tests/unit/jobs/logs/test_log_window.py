"""Lines of several workers on the screen: in the order of time, equal ones once."""

from tpuctl.cli.job.log_window import LogWindow, group_lines
from tpuctl.models.job_log import LogLine


def line(worker: int, time_s: float, text: str, attempt: int = 1) -> LogLine:
    return LogLine(attempt, worker, time_s, text)


def shown(groups) -> list[tuple[list[int], str]]:
    return [(group.workers, group.line.text) for group in groups]


def test_equal_lines_of_several_workers_are_one():
    found, _ = group_lines(line(worker, 1.0, "step=1") for worker in range(4))
    assert shown(found) == [([0, 1, 2, 3], "step=1")]


def test_a_line_that_a_worker_prints_twice_is_shown_twice():
    found, _ = group_lines([line(0, 1.0, "."), line(0, 1.1, "."), line(1, 1.2, ".")])
    assert shown(found) == [([0], "."), ([0, 1], ".")]


def test_each_worker_s_lines_keep_their_order():
    found, places = group_lines([line(0, 1.0, "a"), line(0, 1.1, "b"), line(1, 1.2, "b"),
                             line(1, 1.3, "a")])  # fmt: skip
    assert shown(found) == [([0], "a"), ([0, 1], "b"), ([1], "a")]
    assert places == [0, 1, 1, 2]


def test_lines_of_two_attempts_are_never_one():
    found, _ = group_lines([line(0, 1.0, "up"), line(1, 1.0, "up", attempt=2)])
    assert shown(found) == [([0], "up"), ([1], "up")]


def test_a_line_waits_for_its_like_and_no_longer():
    window = LogWindow(window_s=0.2)
    window.add(line(0, 5.00, "step=1"), at=100.0)
    assert window.ready(100.19) == []
    window.add(line(1, 5.19, "step=1"), at=100.19)
    window.add(line(1, 5.20, "step=2"), at=100.2)
    assert shown(window.ready(100.2)) == [([0, 1], "step=1")]
    assert window.ready(100.3) == []
    assert shown(window.ready(100.41)) == [([1], "step=2")]


def test_a_line_that_comes_late_is_still_before_the_later_ones():
    window = LogWindow(window_s=0.2)
    window.add(line(0, 5.1, "later"), at=100.0)
    window.add(line(1, 5.0, "earlier"), at=100.1)
    assert shown(window.ready(100.2)) == [([1], "earlier"), ([0], "later")]
    assert window.rest() == []


def test_what_every_worker_has_printed_waits_no_longer():
    window = LogWindow(window_s=0.2, workers=2)
    window.add(line(0, 5.00, "mine"), at=100.0)
    window.add(line(0, 5.01, "step=1"), at=100.0)
    assert window.ready(100.01) == []
    window.add(line(1, 5.02, "step=1"), at=100.02)
    window.add(line(1, 5.03, "step=2"), at=100.02)
    assert shown(window.ready(100.02)) == [([0], "mine"), ([0, 1], "step=1")]
    assert window.ready(100.1) == []


def test_the_lines_of_an_only_worker_do_not_wait():
    window = LogWindow(window_s=0.2, workers=1)
    window.add(line(0, 5.0, "up"), at=100.0)
    assert shown(window.ready(100.0)) == [([0], "up")]
