"""What a job's own steps took calibrates a plan; waits for checkpoints are not steps."""

from dataclasses import replace

import pytest

from tpuctl.errors import PreconditionError, UsageError
from tpuctl.models.job import (
    Attempt,
    AttemptState,
    JobRecord,
    JobSpec,
    JobState,
    Resources,
    SaveWait,
)
from tpuctl.models.planning.plan_spec import ModelChoice, TrainPlanSpec
from tpuctl.operations.planning import measured_steps
from unit.operations.planning.simple_models import SIMPLE

SPEC = TrainPlanSpec(ModelChoice("llama-3-8b"), 1e12, 8192, batch_sequences=256)
STEPS = {"1": 100.0, "2": 120.0, "101": 2140.0}
"""The first one compiles, the others take 20 s; 40 s are waits for checkpoints."""


def job(*step_times):
    attempts = tuple(
        Attempt(
            number=number, zone="us-west4-a", node="n1", state=AttemptState.ENDED, owned=True,
            accelerator_type="v5litepod-16", started_s=1000.0, step_times=times,
            save_waits=(SaveWait(50.0, 5.0), SaveWait(900.0, 25.0), SaveWait(2000.0, 45.0)),
        )
        for number, times in enumerate(step_times, 1)
    )  # fmt: skip
    return JobRecord(
        job_id="digits-1", spec=JobSpec("digits", "python3 t.py", resources=Resources("v5e")),
        owner="ada", submitted_s=0.0, zone="us-west4-a", accelerator_type="v5litepod-16",
        state=JobState.RUNNING, attempts=attempts,
    )  # fmt: skip


def test_the_mean_step_leaves_out_compiling_and_waits_for_checkpoints():
    mean = measured_steps.longest_mean(job({"1": 100.0, "2": 130.0}, STEPS))
    # From the report of step 1 to that of step 101: 2040 s, of which 40 s are waits.
    assert (mean.attempt.number, mean.steps, mean.seconds) == (2, 100, 20.0)


def test_measured_over_modelled_on_the_slice_of_the_job():
    found = measured_steps.compare_step(job(STEPS), SPEC, SIMPLE)
    assert (found.accelerator_type, found.steps) == ("v5litepod-16", 100)
    assert (found.measured_s, found.modelled_s, found.ratio) == (20.0, 16.0, 1.25)


def test_what_cannot_be_compared_says_why():
    with pytest.raises(PreconditionError, match="job digits-1 has not told two steps yet"):
        measured_steps.compare_step(job({}), SPEC, SIMPLE)
    mesh = replace(SPEC, mesh={"fsdp": 8})
    with pytest.raises(PreconditionError) as refused:
        measured_steps.compare_step(job(STEPS), mesh, SIMPLE)
    assert str(refused.value) == (
        "the plan does not fit the slice of job digits-1: v5litepod-16 mesh fsdp=8 does not fill "
        "16 devices"
    )
    with pytest.raises(UsageError, match="need the batch that they were measured with"):
        measured_steps.measured_step(None, "digits", replace(SPEC, batch_sequences=None), SIMPLE)
