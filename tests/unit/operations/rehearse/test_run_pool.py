"""Runs side by side: all of them, no more at a time than wanted, and none after the end."""

import threading
from pathlib import Path

import pytest

from tpuctl.errors import LocalIOError
from tpuctl.models.job import JobRecord, JobSpec, JobState
from tpuctl.models.rehearsal.evidence import RunEvidence
from tpuctl.operations.rehearse.events import RunProgressed, RunStarted
from tpuctl.operations.rehearse.rehearsed_run import RunPlan, RunUsage
from tpuctl.operations.rehearse.run_pool import RunEnded, RunPool, RunSkipped, runs_that_fit

SPEC = JobSpec(name="digits", run="true")
JOB = JobRecord("digits-1", SPEC, "ada@desk", 0.0, "us-west4-a", "v5litepod-8")
EVIDENCE = RunEvidence(JOB, 0, "", (), (), ())
USAGE = RunUsage(0.5, 0.1, 5.0, 0.2, 0.1, 6.0)


def plans(*names):
    """Runs by name, which differ in nothing else."""
    return [RunPlan(name, Path(name), Path("job.yaml"), SPEC, {}, {}, 60.0) for name in names]


def of_kind(kind, news):
    """The names of the runs that a kind of news is about."""
    return sorted(item.plan.name for item in news if isinstance(item, kind))


def test_every_run_starts_tells_its_progress_and_ends():
    def carry_out(_plan, hooks):
        hooks.changed(JOB)
        return EVIDENCE, USAGE

    (plan,) = plans("save:middle/none")
    assert list(RunPool(1, carry_out=carry_out).run_all([plan])) == [
        RunStarted("save:middle/none"),
        RunProgressed("save:middle/none", JobState.QUEUED, 0, 0),
        RunEnded(plan, EVIDENCE, USAGE),
    ]


def test_so_many_run_at_a_time():
    together = threading.Barrier(3, timeout=10)
    running, most = [], []

    def carry_out(plan, _hooks):
        running.append(plan)
        most.append(len(running))
        together.wait()
        running.remove(plan)
        return EVIDENCE, USAGE

    news = list(RunPool(3, carry_out=carry_out).run_all(plans(*"abcdef")))
    assert of_kind(RunEnded, news) == [*"abcdef"]
    assert max(most) == 3


def test_a_run_that_would_end_too_late_is_skipped():
    begun = []

    def carry_out(plan, _hooks):
        begun.append(plan.name)
        return EVIDENCE, USAGE

    pool = RunPool(1, lambda: len(begun) < 2, carry_out)
    news = list(pool.run_all(plans(*"abcd")))
    assert (of_kind(RunEnded, news), of_kind(RunSkipped, news)) == ([*"ab"], [*"cd"])


def test_an_error_of_a_cloud_is_the_end_of_its_run_alone():
    error = LocalIOError("no space is left")

    def carry_out(plan, _hooks):
        if plan.name == "a":
            raise error
        return EVIDENCE, USAGE

    news = list(RunPool(1, carry_out=carry_out).run_all(plans("a", "b")))
    ended = {item.plan.name: item.error for item in news if isinstance(item, RunEnded)}
    assert ended == {"a": error, "b": None}


def test_a_bug_is_raised_where_somebody_waits():
    def carry_out(_plan, _hooks):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(RunPool(2, carry_out=carry_out).run_all(plans(*"abc")))


def test_who_stops_listening_stops_every_run():
    begun, stopped = threading.Barrier(3, timeout=10), []

    def carry_out(plan, hooks):
        begun.wait()
        try:
            hooks.pause(60)
        finally:
            stopped.append(plan.name)
        return EVIDENCE, USAGE

    news = RunPool(2, carry_out=carry_out).run_all(plans(*"abcd"))
    next(news)
    begun.wait()
    news.close()
    assert sorted(stopped) == ["a", "b"]


@pytest.mark.parametrize(
    ("cores", "free_gib", "run_gib", "run_cores", "count"),
    [
        (2, 8, 0.5, 1.0, 2),
        (2, 8, 0.5, 0.3, 7),
        (2, 8, 0.5, 5.0, 1),
        (16, 8, 2.0, 1.0, 3),
        (16, 8, 12.0, 1.0, 1),
        (16, None, 2.0, 1.0, 16),
        (2, 8, 0, 0.0, 20),
        (64, 512, 0.1, 0.5, 32),
    ],
)
def test_as_many_as_cores_and_memory_carry(cores, free_gib, run_gib, run_cores, count):
    free = None if free_gib is None else free_gib << 30
    assert runs_that_fit(cores, free, int(run_gib * (1 << 30)), run_cores) == count
