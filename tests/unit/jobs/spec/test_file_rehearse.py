"""The section `rehearse` of a job file: what it says, what is refused, and the job it makes."""

from dataclasses import replace

import pytest

from tpuctl.errors import UsageError
from tpuctl.jobs.spec.file_rehearse import rehearsed_job
from tpuctl.jobs.spec.job_file import load, load_with_rehearsal
from tpuctl.models.job import Resources
from tpuctl.models.rehearsal.rehearse_spec import RehearseSpec

JOB = """\
name: digits
resources: {accelerators: v5litepod-16, topology: 4x4}
run: python3 train.py
envs: {STEPS: "300", SEED: "0"}
"""
SECTION = """\
rehearse:
  envs: {STEPS: 60, OUT: gs://$BUCKET/out}
  accelerators: v5litepod-8
  data: {gs://$BUCKET/data.v1/set: "set"}
  tolerance: {loss: 0.01}
  metrics: [loss, accuracy]
  examples: 'step (?P<step>\\d+) reads (?P<examples>.+)'
"""


def read(tmp_path, text):
    """The job and the section of a file with that text."""
    (tmp_path / "job.yaml").write_text(text)
    return load_with_rehearsal(tmp_path / "job.yaml", bucket="b", environ={})


def test_the_section_is_read_with_its_bucket_and_its_paths(tmp_path):
    _, section = read(tmp_path, JOB + SECTION)
    assert section == RehearseSpec(
        envs={"STEPS": "60", "OUT": "gs://b/out"},
        accelerators="v5litepod-8",
        data={"gs://b/data.v1/set": str(tmp_path / "set")},
        tolerance={"loss": 0.01},
        metrics=("loss", "accuracy"),
        examples=r"step (?P<step>\d+) reads (?P<examples>.+)",
    )


def test_a_file_without_the_section_has_its_defaults(tmp_path):
    assert read(tmp_path, JOB)[1] == RehearseSpec()


def test_the_job_itself_knows_nothing_of_the_section(tmp_path):
    spec, _ = read(tmp_path, JOB + SECTION)
    (tmp_path / "job.yaml").write_text(JOB)
    assert spec == load(tmp_path / "job.yaml", bucket="b", environ={})


def test_the_rehearsed_job_has_the_values_and_the_type_of_the_section(tmp_path):
    spec, section = read(tmp_path, JOB + SECTION)
    assert rehearsed_job(spec, section) == replace(
        spec,
        envs={"STEPS": "60", "SEED": "0", "OUT": "gs://b/out"},
        resources=Resources(accelerators="v5litepod-8"),
        notify=(),
    )
    assert rehearsed_job(spec, RehearseSpec()) == replace(spec, notify=())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("tolerances: {}",
         "unknown key 'tolerances' in rehearse (line 6); did you mean 'tolerance'?"),
        ("data: {set: set}", "rehearse.data.set (line 6) is not a gs:// URL"),
        ("tolerance: {loss: 2}", "rehearse.tolerance.loss (line 6) must be at most 1, not 2"),
        ("metrics: loss", "rehearse.metrics (line 6) must be a list of metrics, not 'loss'"),
        ("examples: '('", "rehearse.examples (line 6) is not a regular expression: missing ), "
         "unterminated subpattern at position 0"),
        ("examples: '(?P<step>.)'", "rehearse.examples (line 6) has no group (?P<examples>…)"),
        ("envs: {TPUCTL_X: 1}", "rehearse.envs.TPUCTL_X (line 6) cannot be the name of a variable"),
    ],
)  # fmt: skip
def test_what_it_cannot_say_is_refused_by_submit_too(tmp_path, line, message):
    (tmp_path / "job.yaml").write_text(f"{JOB}rehearse:\n  {line}\n")
    with pytest.raises(UsageError) as caught:
        load(tmp_path / "job.yaml", bucket="b", environ={})
    assert str(caught.value) == message
