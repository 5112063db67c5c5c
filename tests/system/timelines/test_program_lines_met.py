"""A timeline meets the program of a job at a step, or at another line, that it writes."""

import os
from pathlib import Path

import clouds

from tpuctl.jobs.spec import job_file
from tpuctl.models.job import AttemptOutcome, JobState
from tpuctl.operations.rehearse.rehearsed_run import RunHooks, RunPlan, carry_out_run

JOB = """\
name: little
resources: {accelerators: v5litepod-1, use_spot: true}
run: |
  echo step=2000
  echo step=20 loss=0.5
  test $TPUCTL_ATTEMPT = 2 || sleep 600
"""
KILL = "preempt little-* without notice"


LINE = 'at line "loss=0[.]5$" of little-*-a1/*'
TIMELINE = [
    {"name": "line", "when": LINE, "do": "nothing"},
    {"name": "kill", "when": "at step 20 of little-*/0", "do": KILL},
]


@clouds.MATRIX
def test_a_slice_is_taken_when_its_program_writes_that_line(tmp_path: Path, namespaces):
    (tmp_path / "job.yaml").write_text(JOB)
    plan = RunPlan(
        name="met",
        home=tmp_path / "run",
        file=tmp_path / "job.yaml",
        spec=job_file.load(tmp_path / "job.yaml", bucket="local-bucket", environ={}),
        data={},
        environ=dict(os.environ),
        limit_s=300.0,
        scenario={"timeline": TIMELINE},
    )
    evidence, _ = carry_out_run(plan, RunHooks())
    assert evidence.job.state == JobState.SUCCEEDED
    assert [each.outcome for each in evidence.job.attempts] == [
        AttemptOutcome.PREEMPTED,
        AttemptOutcome.SUCCEEDED,
    ]
    assert {entry.name for entry in evidence.fired} == {"line", "kill"}
