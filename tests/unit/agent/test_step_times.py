"""The table of when steps were told stays small, and keeps the first two and the last."""

from tpuctl.agent.job.logs.step_times import MOST_ROWS, StepTimes


def told(*steps: int) -> dict[str, float]:
    times = StepTimes(began=100.0)
    for step in steps:
        times.note({"step": step}, 100.0 + step / 2)
    return times.table()


def test_a_short_run_has_every_step():
    assert told(1, 2, 3) == {"1": 0.5, "2": 1.0, "3": 1.5}


def test_what_is_no_news_is_left_out():
    times = StepTimes(began=0.0)
    for said in ({}, {"step": 3}, {"step": 3}, {"step": 2}, {"resume_step": 9}):
        times.note(said, 5.0)
    assert times.table() == {"3": 5.0}


def test_of_a_long_run_rows_are_spread_over_all_of_it():
    table = told(*range(1, 10_001))
    steps = [int(step) for step in table]
    assert (steps[:2], steps[-1]) == ([1, 2], 10_000)
    assert len(steps) <= MOST_ROWS + 1
    gaps = [after - before for before, after in zip(steps[1:], steps[2:], strict=False)]
    assert max(gaps) <= 10_000 / (MOST_ROWS / 4)
    assert all(after_s == int(step) / 2 for step, after_s in table.items())
