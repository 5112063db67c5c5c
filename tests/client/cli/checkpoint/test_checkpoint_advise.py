"""`tpuctl checkpoint advise`: what saving costs a job, and which interval loses least."""

from dataclasses import replace

import pytest

from client.cli.checkpoint.checkpoint_runs import run
from client.cli.job.job_records import HOUR_S, SPOT, T, attempt, job, put, store_of
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.models.job import AttemptOutcome, Checkpoints, JobSpec

URL = "gs://local-bucket/runs/lm"
KEYS = [
    "job", "state", "directory", "saves", "save_s", "blocked_s", "cost_s", "every", "interval_s",
    "step_s", "preemptions", "active_hours", "mean_hours", "restart_s", "redone_steps",
    "redone_hours", "young_s", "daly_s", "best_s", "best_every", "lost_now", "lost_at_best",
    "sources",
]  # fmt: skip
SPEC = JobSpec("lm", "python3 train.py", resources=SPOT, checkpoints=Checkpoints(URL))
ATTEMPTS = (
    attempt(1, last_step=100),
    attempt(2, outcome=AttemptOutcome.SUCCEEDED, resume_step=80, last_step=300),
)


@pytest.fixture
def store(cloud):
    return store_of(cloud.home)


@pytest.fixture
def saved(cloud):
    """Three steps, a minute after one another."""
    store = Runtime(environ={"TPUCTL_HOME": str(cloud.home)}).store(URL)
    run(store, 80, 100, 120, between=lambda: cloud.control.advance(60))


def test_it_reckons_from_saves_and_preemptions(tpuctl, store, saved):
    put(store, job(spec=SPEC, attempts=ATTEMPTS))
    result = tpuctl("checkpoint", "advise", "lm", "-o", "json")
    assert result.code == 0
    found = result.json
    assert list(found) == KEYS
    assert (found["saves"], found["every"], found["interval_s"], found["step_s"]) == (3, 20, 60, 3)
    assert found["preemptions"] == 1
    assert (found["active_hours"], found["mean_hours"], found["redone_steps"]) == (2, 2, 20)
    assert found["directory"] == URL
    assert found["best_every"] == max(1, round(found["best_s"] / 3))
    assert found["lost_at_best"]["percent"] < found["lost_now"]["percent"]
    assert list(found["lost_now"]) == ["percent", "hours", "usd"]
    assert found["lost_now"]["usd"] == pytest.approx(found["lost_now"]["hours"] * 9.712, rel=0.01)
    assert "Young 1974" in found["sources"][0]
    assert "Daly 2006" in found["sources"][1]


def test_people_see_it_on_one_screen_with_the_formula(tpuctl, store, saved):
    put(store, job(spec=SPEC, attempts=ATTEMPTS))
    out = tpuctl("checkpoint", "advise", "digits-1").out
    assert "preemptions  1 in 2 h: one every 2 h (M)\n" in out
    assert "done again   20 steps" in out
    assert "saves now    every 20 steps, 60 s\n" in out
    assert "should save  every " in out
    assert "sqrt(2 d M)" in out


def test_a_job_that_was_never_preempted_is_reckoned_as_if_once(tpuctl, store, saved):
    kept = replace(attempt(1), outcome=AttemptOutcome.SUCCEEDED, ended_s=T + 60 + 4 * HOUR_S)
    put(store, job(spec=SPEC, attempts=(kept,)))
    out = tpuctl("checkpoint", "advise", "lm").out
    assert "preemptions  none in 4 h: reckoned as if there had been one (M)\n" in out


@pytest.mark.parametrize(
    ("found", "code", "message"),
    [
        (job(spec=SPEC), 12, "job digits-1 has not had a slice yet"),
        (job(spec=replace(SPEC, checkpoints=None)), 2, "was given no checkpoints.dir"),
        (job(spec=replace(SPEC, checkpoints=Checkpoints(f"{URL}x"))), 10, "no checkpoint is in"),
    ],
)
def test_what_cannot_be_reckoned_is_said(tpuctl, store, saved, found, code, message):
    put(store, found)
    result = tpuctl("checkpoint", "advise", "digits-1")
    assert (result.code, message in result.err) == (code, True)
    assert result.err.splitlines()[-1].startswith("hint: ")


def test_no_such_job_is_said(tpuctl):
    assert tpuctl("checkpoint", "advise", "nobody").code == 10
