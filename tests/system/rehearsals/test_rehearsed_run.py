"""One run on a cloud of its own: what is observed of it, and that nothing of it is left."""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import clouds
import pytest

from tpuctl.config import DEFAULT_CONTEXT
from tpuctl.errors import LocalIOError
from tpuctl.file_lock import try_lock
from tpuctl.jobs.spec import job_file
from tpuctl.models.job import JobState
from tpuctl.operations.local.local_cloud import endpoint_line
from tpuctl.operations.rehearse import rehearsal_folder
from tpuctl.operations.rehearse.rehearsed_run import RunHooks, RunPlan, carry_out_run

JOB = """\
name: little
resources: {accelerators: v5litepod-1, use_spot: true}
run: |
  test "$(cat /data/words)" = hello
  for step in 1 2 3; do echo step=$step loss=0.$step; done
file_mounts: {/data: gs://my-words/data}
"""


def plan(tmp_path, text=JOB, **changes):
    """A run of a job file with that text."""
    (tmp_path / "job.yaml").write_text(text)
    (tmp_path / "words").write_text("hello")
    spec = job_file.load(tmp_path / "job.yaml", bucket="local-bucket", environ={})
    given = {
        "name": "reference",
        "home": tmp_path / "run",
        "file": tmp_path / "job.yaml",
        "spec": spec,
        "data": {"gs://my-words/data/": str(tmp_path / "words")},
        "environ": dict(os.environ),
        "limit_s": 60.0,
    }
    return RunPlan(**{**given, **changes})


def locks_of(home: Path) -> list[Path]:
    """The files that the simulator and the supervisor of a run hold until they end."""
    paths = [home / "local" / "local" / "lock", home / "supervisors" / "local.lock"]
    return [path for path in paths if path.exists()]


def has_ended(home: Path) -> bool:
    """Whether the simulator and the supervisor of a run have ended."""
    for path in locks_of(home):
        with path.open("r+") as lock:
            if not try_lock(lock, fcntl.LOCK_EX):
                return False
    return True


def test_a_run_shows_the_job_its_lines_and_its_requests(tmp_path):
    told = []
    evidence, usage = carry_out_run(plan(tmp_path), RunHooks(told.append))
    assert (evidence.exit_code, evidence.error, evidence.leftovers) == (0, "", ())
    assert evidence.job.state == JobState.SUCCEEDED
    assert [line.text for line in evidence.lines if "step=" in line.text] == [
        "step=1 loss=0.1",
        "step=2 loss=0.2",
        "step=3 loss=0.3",
    ]
    by_worker = {each.object for each in evidence.requests if each.caller.endswith("/0")}
    assert "data/words" in by_worker
    assert evidence.objects == {"my-words/data/words": 5}
    assert evidence.checkpoint is None
    assert told[-1] == evidence.job
    assert usage.cpu_s > 0
    assert has_ended(tmp_path / "run")


@clouds.MATRIX
def test_a_bucket_that_fails_for_a_while_ends_no_run(tmp_path):
    text = """\
name: little
resources: {accelerators: v5litepod-1}
run: for step in 1 2; do echo step=$step; sleep 1; done
"""
    later = {"when": "1s later", "do": "storage.*: return-429", "for": "1s"}
    errors = {"when": "at step 1 of little-*/0", "do": "storage.*: return-503", "for": "1s"}
    scenario = {"timeline": [{**errors, "name": "503", "then": [{**later, "name": "429"}]}]}
    planned = plan(tmp_path, text, data={}, scenario=scenario)
    evidence, _ = carry_out_run(planned, RunHooks())
    assert (evidence.exit_code, evidence.error) == (0, "")
    assert evidence.job.state == JobState.SUCCEEDED
    assert [entry.name for entry in evidence.fired] == ["503", "429"]
    assert {200, 429, 503} <= {each.status for each in evidence.requests if not each.caller}


def test_a_simulator_that_ends_by_itself_ends_its_run(tmp_path):
    text = "name: slow\nresources: {accelerators: v5litepod-1}\nrun: sleep 600\n"
    planned = plan(tmp_path, text, data={})

    def kill_when_running(job):
        if job.state == JobState.RUNNING:
            os.kill(endpoint_line(planned.home, DEFAULT_CONTEXT)["pid"], signal.SIGKILL)

    with pytest.raises(LocalIOError) as caught:
        carry_out_run(planned, RunHooks(kill_when_running))
    assert str(caught.value) == "the simulator of a run ended by itself (-9)"
    assert caught.value.hint == f"look at: {planned.home / 'local' / 'local.log'}"
    assert has_ended(planned.home)


@clouds.MATRIX
def test_a_job_that_does_not_end_in_time_is_given_up(tmp_path):
    text = "name: slow\nresources: {accelerators: v5litepod-1}\nrun: echo step=1; sleep 600\n"
    evidence, _ = carry_out_run(plan(tmp_path, text, data={}, limit_s=4.0), RunHooks())
    assert evidence.exit_code == 41
    assert evidence.error.startswith("the job is ")
    assert has_ended(tmp_path / "run")


def test_a_job_that_is_not_accepted_is_observed_as_that(tmp_path):
    text = "name: odd\nrequires: a-real-tpu\nresources: {accelerators: v5litepod-1}\nrun: exit 0\n"
    evidence, _ = carry_out_run(plan(tmp_path, text, data={}), RunHooks())
    assert (evidence.job, evidence.exit_code) == (None, 12)
    assert "a-real-tpu" in evidence.error
    assert has_ended(tmp_path / "run")


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGKILL, marks=clouds.MATRIX), signal.SIGINT]
)
def test_a_rehearsal_that_is_ended_leaves_no_process(tmp_path, number):
    planned = plan(tmp_path, "name: slow\nresources: {accelerators: v5litepod-1}\nrun: sleep 600\n")
    with subprocess.Popen(
        [sys.executable, "-m", "tpuctl", "rehearse", str(planned.file)],
        env={**os.environ, "TPUCTL_HOME": str(tmp_path / "home")},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        for line in process.stderr:
            if "RUNNING" in line:
                break
        process.send_signal(number)
        rest = process.stderr.read()
    homes = list((tmp_path / "home" / "rehearsals").glob("*/reference*"))
    for home in homes:
        for path in locks_of(home):
            with path.open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # until its holder has ended
    if number == signal.SIGINT:
        assert (process.returncode, homes) == (130, [])
        assert rest.splitlines()[-1] == "interrupted"
    rehearsal_folder.end_abandoned_runs(tmp_path / "home")
    assert list((tmp_path / "home" / "rehearsals").iterdir()) == []
