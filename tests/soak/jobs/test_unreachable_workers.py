"""A supervisor that does not reach the workers of a job for long destroys nothing of it.

For an hour, with `-s` to see what the job's record says of it:

    TPUCTL_SOAK_UNREACHABLE_S=3600 pytest -m soak -s tests/soak/jobs/test_unreachable_workers.py
"""

import os

import pytest
from system.rehearsals.test_rehearsed_run import plan

from tpuctl.models.job import JobState
from tpuctl.operations.rehearse.rehearsed_run import RunHooks, carry_out_run

UNREACHABLE_S = int(os.environ.get("TPUCTL_SOAK_UNREACHABLE_S", "180"))
STEP_S = 5
STEPS = UNREACHABLE_S // STEP_S + 24
JOB = f"""\
name: far
resources: {{accelerators: v5litepod-16, use_spot: true}}
run: for step in $(seq {STEPS}); do echo step=$step; sleep {STEP_S}; done
"""
TIMELINE = [
    {
        "name": "unreachable",
        "when": "at step 6 of far-*/0",
        "do": "vpc: unreachable",
        "for": f"{UNREACHABLE_S}s",
    }
]

pytestmark = [pytest.mark.soak, pytest.mark.timeout(UNREACHABLE_S + 1200)]


def test_a_job_outlives_a_supervisor_that_does_not_reach_it(tmp_path):
    limit_s = STEPS * STEP_S + 600.0
    planned = plan(tmp_path, JOB, data={}, scenario={"timeline": TIMELINE}, limit_s=limit_s)
    evidence, usage = carry_out_run(planned, RunHooks(lambda job: print(job.status_text)))
    print(f"{UNREACHABLE_S} s unreachable, {usage.job_s:.0f} s in all, {usage.cpu_s:.0f} s of CPU")
    for event in evidence.job.events:
        print(f"{event.time_s:.0f} {event.text}")
    assert (evidence.exit_code, evidence.error) == (0, "")
    assert [entry.name for entry in evidence.fired] == ["unreachable"]
    assert evidence.job.state == JobState.SUCCEEDED
    assert len(evidence.job.attempts) == 1
    for worker in range(4):
        said = [line.text for line in evidence.lines if line.worker_id == worker]
        assert [text for text in said if text.startswith("step=")] == [
            f"step={step}" for step in range(1, STEPS + 1)
        ]
    assert evidence.leftovers == ()
