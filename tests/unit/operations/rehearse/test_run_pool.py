"""Runs side by side: all of them, no more at a time than wanted, and none after the end."""

import threading
from pathlib import Path

import pytest

from tpuctl.errors import LocalIOError
from tpuctl.models.job import JobRecord, JobSpec, JobState
from tpuctl.models.rehearsal.evidence import RunEvidence
from tpuctl.operations.rehearse.events import RunProgressed, RunStarted
from tpuctl.operations.rehearse.rehearsed_run import RunPlan, RunUsage
from tpuctl.operations.rehearse.run_pool import (
    RunEnded,
    RunPool,
    RunSkipped,
    runs_in_memory,
    runs_that_fit,
)
from tpuctl.operations.rehearse.spare_cores import SpareCores

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


def test_more_run_while_cores_are_idle():
    together = threading.Barrier(3, timeout=10)

    def carry_out(_plan, _hooks):
        together.wait()
        return EVIDENCE, USAGE

    pool = RunPool(1, carry_out=carry_out, most=3, has_spare_cores=lambda: True)
    assert of_kind(RunEnded, pool.run_all(plans(*"abcdef"))) == [*"abcdef"]


def test_no_more_run_while_none_is_idle():
    running, most = [], []

    def carry_out(plan, _hooks):
        running.append(plan)
        most.append(len(running))
        running.remove(plan)
        return EVIDENCE, USAGE

    pool = RunPool(1, carry_out=carry_out, most=3, has_spare_cores=lambda: False)
    assert of_kind(RunEnded, pool.run_all(plans(*"abcdef"))) == [*"abcdef"]
    assert max(most) == 1


@pytest.mark.parametrize(
    ("cores", "run_cores", "count"),
    [(2, 1.0, 2), (2, 0.8, 3), (2, 5.0, 1), (2, 0.0, 20), (64, 0.5, 32)],
)
def test_as_many_as_keep_the_cores_busy(cores, run_cores, count):
    assert runs_that_fit(cores, run_cores) == count


@pytest.mark.parametrize(
    ("free_gib", "run_gib", "count"),
    [(8, 2.0, 3), (8, 12.0, 1), (None, 2.0, 32), (8, 0, 32), (512, 0.1, 32)],
)
def test_as_many_as_the_memory_holds(free_gib, run_gib, count):
    free = None if free_gib is None else free_gib << 30
    assert runs_in_memory(free, int(run_gib * (1 << 30))) == count


def claims(*looks):
    """What a machine answers that is looked at, each look a time and the idle seconds till then."""
    times, idle = iter([time for time, _ in looks]), iter([seconds for _, seconds in looks])
    spare = SpareCores(1.0, lambda: next(idle), lambda: next(times))
    return [spare.claim() for _ in looks]


def test_cores_are_spare_that_were_idle_for_a_while():
    assert claims((0, 100), (1, 102), (2, 104), (3, 105), (4, 105.5)) == [
        False, False, True, False, False,
    ]  # fmt: skip


def test_no_cores_are_spare_where_the_system_does_not_tell():
    assert claims((0, None), (5, None), (10, None)) == [False, False, False]
