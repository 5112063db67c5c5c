"""What undisturbed runs show: whether a rehearsal of a job is worth the time."""

from dataclasses import replace

import pytest

from tpuctl.models.job import JobState
from tpuctl.models.job_log import LogLine
from tpuctl.models.rehearsal.verdict import Cause, Judgement
from tpuctl.operations.rehearse.judgement.reference_verdict import Limits, judge_reference
from unit.operations.rehearse.played_jobs import Program, facts_of, play_job
from unit.operations.rehearse.played_programs import DEFECTIVE, SOUND


def save_nothing(play, step, states):
    """No save."""


def save_at_end(play, step, states):
    """A save of the last step alone."""
    if step == 20:
        play.put(0, "step-20/state.json", [])


def resume_nothing(play):
    """Begin again."""


def answers(verdict):
    """Name of a check -> its answer and evidence."""
    return {check.name: (check.judgement, check.evidence) for check in verdict.checks}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_job_passes(name):
    runs = [play_job(SOUND[name]) for _ in range(2)]
    verdict = judge_reference(facts_of(runs))
    assert (verdict.judgement, verdict.cause) == (Judgement.PASS, None)
    assert (verdict.steps, verdict.saves, verdict.prefix) == (20, 4, "gs://b/runs/x")


def test_every_answer_is_a_sentence():
    runs = [play_job(SOUND["files-and-marker"]) for _ in range(2)]
    verdict = judge_reference(facts_of(runs), Limits(2**34, 600.0, 40, 4))
    passed = Judgement.PASS
    assert answers(verdict) == {
        "ends": (passed, "the job succeeds when nothing disturbs it"),
        "steps": (passed, "2 workers tell steps up to 20"),
        "saves": (passed, "4 saves below gs://b/runs/x, every 5 steps"),
        "deterministic": (passed, "the same in two runs: loss"),
        "order": (passed, "no save is marked complete before its objects are there"),
        "inside-prefix": (passed, "every object that it writes is below gs://b/runs/x"),
        "time": (passed, "40 runs of 1 s take about 7 s"),
    }


@pytest.mark.parametrize(
    ("program", "cause", "evidence"),
    [
        (save_nothing, Cause.NEVER_SAVES, "it never writes an object below gs://b/runs/x"),
        (
            save_at_end,
            Cause.SAVES_ONLY_AT_END,
            "it saves only at its end, in 20 steps: a preemption costs all of them",
        ),
    ],
)
def test_a_job_without_a_save_to_come_back_to_is_told_before_any_moment(program, cause, evidence):
    verdict = judge_reference(facts_of([play_job(Program(program, resume_nothing))]))
    assert (verdict.judgement, verdict.cause) == (Judgement.FAIL, cause)
    assert verdict.explanation == evidence


def test_a_save_on_the_workers_disk_is_told():
    run = play_job(Program(save_nothing, resume_nothing))
    line = LogLine(1, 0, run.ended_s, "Saved checkpoint 5 to /home/me/ckpt/5")
    verdict = judge_reference(facts_of([replace(run, lines=(*run.lines, line))]))
    assert verdict.cause == Cause.SAVES_ON_WORKER_DISK
    assert verdict.explanation == (
        "it saves at /home/me/ckpt/5 of the worker, whose disk is lost with it"
    )


def test_losses_that_differ_between_two_runs_are_a_warning():
    first = play_job(SOUND["in-place"])
    lines = tuple(replace(line, text=line.text.replace(".5 ", ".7 ")) for line in first.lines)
    verdict = judge_reference(facts_of([first, replace(first, lines=lines)]))
    assert (verdict.judgement, verdict.cause) == (Judgement.WARN, Cause.NOT_DETERMINISTIC)
    runs = [first, replace(first, lines=lines)]
    tolerant = judge_reference(facts_of(runs, tolerance={"loss": 0.01}))
    assert tolerant.judgement == Judgement.PASS


def test_a_job_that_prints_no_steps_fails():
    run = play_job(SOUND["in-place"])
    verdict = judge_reference(facts_of([replace(run, lines=())]))
    assert verdict.judgement == Judgement.FAIL
    assert answers(verdict)["steps"][1].startswith("the program prints no steps that are underst")


@pytest.mark.parametrize(
    ("line", "evidence"),
    [
        ("RuntimeError: Unable to initialize backend 'tpu': ...", "the program needs a real TPU: "),
        ("MemoryError", "the program needs more memory than there is: MemoryError"),
        ("ValueError: 3", "the job is FAILED although nothing disturbs it: "),
    ],
)
def test_why_an_undisturbed_job_fails_is_told(line, evidence):
    run = play_job(SOUND["in-place"])
    lines = (*run.lines, LogLine(1, 0, run.ended_s, line))
    job = replace(run.job, state=JobState.FAILED)
    verdict = judge_reference(facts_of([replace(run, job=job, exit_code=71, lines=lines)]))
    assert verdict.judgement == Judgement.FAIL
    assert verdict.explanation.startswith(evidence)


def test_what_the_machine_and_the_time_allow_is_told():
    run = replace(play_job(SOUND["in-place"]), peak_rss_bytes=3 * 2**30)
    told = answers(judge_reference(facts_of([run]), Limits(2**30, 0.5)))
    assert told["memory"] == (
        Judgement.FAIL,
        "a run uses 3.0 GiB of memory, and there are 1.0 GiB",
    )
    assert told["time"] == (Judgement.FAIL, "the job is too slow: one run takes 1 s")


def test_an_object_outside_of_the_prefix_is_a_warning():
    run = play_job(SOUND["in-place"])
    stray = replace(run.requests[1], number=99, object="logs/events.1", generation=99)
    verdict = judge_reference(facts_of([replace(run, requests=(*run.requests, stray))]))
    assert answers(verdict)["inside-prefix"] == (
        Judgement.WARN,
        "1 objects are written outside of gs://b/runs/x, such as gs://b/logs/events.1",
    )


@pytest.mark.parametrize(
    "cause",
    [
        "torn-marker",
        "marker-before-data",
        "not-durable",
        "marker-before-other-workers",
        "same-object-from-several-workers",
        "deletes-old-step-first",
    ],
)
def test_a_dangerous_order_is_a_warning_with_its_cause(cause):
    runs = [play_job(DEFECTIVE[cause]) for _ in range(2)]
    verdict = judge_reference(facts_of(runs))
    assert (verdict.judgement, verdict.cause) == (Judgement.WARN, cause)
