"""Row L12: one of every kind of error that a job can meet, as people and programs are told of it.

Each has its documented exit code and a stable reason, one line of cause and one of what to do next;
nobody sees a traceback, and stdout stays empty or JSON.
"""

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from clouds import Cloud, Runner

from client.cli.job.job_records import attempt, job, put, store_of
from tpuctl.jobs.local import supervisor_lock
from tpuctl.models.job import AttemptOutcome, Checkpoints, JobState
from tpuctl.operations.jobs import supervision
from tpuctl.store import Store
from tpuctl.store.gcs import bulk

PAGE = Path(__file__).parents[4] / "docs" / "errors.md"
FILE = "name: x\nrun: 'true'\nresources: {accelerators: v5litepod-4}\n"


@dataclass(frozen=True)
class Scene:
    """What a case may prepare: a simulator, its bucket, a directory, the command line."""

    cloud: Cloud
    store: Store
    directory: Path
    tpuctl: Runner

    def file(self, text: str = FILE) -> str:
        """A job file."""
        path = self.directory / "job.yaml"
        path.write_text(text)
        return str(path)

    def fault(self, text: str) -> None:
        """From here on it goes wrong."""
        assert self.tpuctl("local", "fault", text).code == 0

    def ended(self, **last) -> tuple[str, ...]:
        """Wait for a job that failed, whose last attempt was like that."""
        ended = attempt(**last)
        put(self.store, job(attempts=(ended,), why=ended.reason, ended_by_attempt=ended.number))
        return ("job", "wait", "digits-1")


Case = Callable[[Scene], tuple[str, ...]]
CASES: dict[str, tuple[int, str, Case]] = {}
"""By name: exit code, reason, and what leads there."""


def case(exit_code: int, reason: str) -> Callable[[Case], Case]:
    """The error that the command, which a case returns, ends with."""

    def keep(found: Case) -> Case:
        CASES[found.__name__] = (exit_code, reason, found)
        return found

    return keep


@case(2, "usage")
def typo_in_the_job_file(scene):
    return ("job", "submit", scene.file(FILE.replace("accelerators", "acelerators")))


@case(2, "usage")
def unknown_accelerator_type(scene):
    return ("job", "submit", scene.file(FILE.replace("v5litepod-4", "v5litepod-17")))


@case(10, "not_found")
def no_such_file(scene):
    return ("job", "submit", str(scene.directory / "nope.yaml"))


@case(10, "not_found")
def no_such_workdir(scene):
    return ("job", "submit", scene.file(FILE + "workdir: nowhere\n"))


@case(2, "usage")
def secret_that_the_environment_does_not_have(scene):
    return ("job", "submit", scene.file(FILE + "secrets: {HF_TOKEN: }\n"))


@case(2, "usage")
def unknown_option(scene):
    return ("job", "list", "--nope")


@case(2, "usage")
def name_of_several_jobs(scene):
    for number in (1, 2):
        put(scene.store, job(f"digits-{number}", JobState.RUNNING))
    return ("job", "describe", "digits")


@case(2, "usage")
def slice_that_the_api_calls_wrong(scene):
    return scene.ended(outcome=AttemptOutcome.REFUSED, refusal="usage", reason="no such zone")


@case(10, "not_found")
def unknown_job(scene):
    return ("job", "describe", "nope")


@case(10, "not_found")
def unknown_node(scene):
    return ("job", "submit", scene.file(), "--node", "gone")


@case(11, "conflict")
def checkpoints_of_another_job(scene):
    for job_id, state in (("digits-1", JobState.FAILED), ("other-2", JobState.RUNNING)):
        found = job(job_id, state)
        kept = Checkpoints("gs://local-bucket/runs/digits")
        put(scene.store, replace(found, spec=replace(found.spec, checkpoints=kept)))
    return ("job", "retry", "digits-1")


@case(12, "precondition_failed")
def requirement_that_the_context_lacks(scene):
    return ("job", "submit", scene.file(FILE + "requires: gpu\n"))


@case(12, "precondition_failed")
def retry_of_what_runs(scene):
    put(scene.store, job(state=JobState.RUNNING))
    return ("job", "retry", "digits-1")


@case(20, "no_credentials")
def credentials_that_are_not_there(scene):
    scene.directory.joinpath("config.yaml").write_text(
        "schema: 1\ncurrent: lab\ncontexts:\n  lab:\n    project: p\n    zone: us-west4-a\n"
        f"    bucket: b\n    credentials: {scene.directory}/key.json\n"
    )
    return ("--context", "lab", "job", "list")


@case(21, "permission_denied")
def bucket_that_may_not_be_listed(scene):
    scene.fault("storage.objects.list: return-403")
    return ("job", "list")


@case(21, "permission_denied")
def slice_that_may_not_be_made(scene):
    return scene.ended(outcome=AttemptOutcome.REFUSED, refusal="permission_denied", reason="403")


@case(30, "no_capacity")
def quota_that_is_used_up(scene):
    return scene.ended(
        outcome=AttemptOutcome.REFUSED, refusal="no_capacity", reason="quota: 0 of 16"
    )


@case(30, "no_capacity")
def zone_without_capacity(scene):
    return scene.ended(
        outcome=AttemptOutcome.STOCKOUT, refusal="no_capacity", reason="no v5litepod-16"
    )


@case(31, "preempted")
def slice_that_was_taken(scene):
    return scene.ended(outcome=AttemptOutcome.PREEMPTED)


@case(40, "transient")
def bucket_that_fails_on_and_on(scene):
    scene.fault("storage.objects.list: return-503")
    return ("job", "list")


@case(41, "deadline")
def job_that_goes_on(scene):
    put(scene.store, job(state=JobState.WAITING))
    return ("job", "wait", "digits-1", "--timeout", "0s")


@case(60, "local_io")
def home_that_cannot_be_written(scene):
    put(scene.store, job(state=JobState.WAITING))
    (scene.directory / "supervisors").write_text("a file in the way")
    return ("job", "describe", "digits-1")


@case(61, "locked")
def second_supervisor(scene):
    return ("supervisor", "run")


@case(62, "damaged_state")
def damaged_record(scene):
    scene.store.put_if_absent("tpuctl/records/digits-1", b"{")
    return ("job", "describe", "digits-1")


@case(62, "damaged_state")
def record_of_a_newer_tpuctl(scene):
    scene.store.put_if_absent("tpuctl/records/digits-1", b'{"schema": 99}')
    return ("job", "describe", "digits-1")


@case(70, "partial_failure")
def one_of_two_that_cannot_be_cancelled(scene):
    for number in (1, 2):
        put(scene.store, job(f"digits-{number}", JobState.RUNNING))
    scene.fault("storage.objects.insert: return-403 x1")
    return ("job", "cancel", "digits-1", "digits-2")


@case(71, "job_failed")
def program_that_failed(scene):
    return scene.ended(
        outcome=AttemptOutcome.FAILED, reason="worker 1: the program ended with status 3"
    )


@case(71, "job_failed")
def program_that_hung(scene):
    return scene.ended(outcome=AttemptOutcome.HUNG, reason="no line and no step for 15 min")


@case(71, "job_failed")
def job_that_was_cancelled(scene):
    put(scene.store, job(state=JobState.CANCELLED))
    return ("job", "wait", "digits-1")


@case(80, "refused")
def key_in_the_workdir(scene):
    work = scene.directory / "work"
    work.mkdir()
    work.joinpath("id_ed25519").write_text(f"-----BEGIN PRIVATE KEY-----\n{'A' * 64}\n")
    return ("job", "submit", scene.file(FILE + "workdir: work\n"))


@case(80, "refused")
def deletion_that_nobody_confirms(scene):
    put(scene.store, job())
    argv = ("qr", "create", "left", "-t", "v5litepod-16", "--labels", "tpuctl-job=digits-1")
    assert scene.tpuctl(*argv).code == 0
    return ("sweep", "--fix")


@pytest.fixture
def scene(cloud, tpuctl, tmp_path, monkeypatch) -> Scene:
    monkeypatch.setattr(supervision, "start_supervisor", lambda _runtime: ())
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("STORAGE_READ", "STORAGE_WRITE", "STORAGE_METADATA"):
        monkeypatch.setattr(bulk, name, replace(getattr(bulk, name), deadline_s=0.3))
    return Scene(cloud, store_of(cloud.home), tmp_path, tpuctl)


HOMES_OF_THEIR_OWN = ("credentials_that_are_not_there", "home_that_cannot_be_written")


@pytest.mark.parametrize("name", CASES)
def test_an_error_is_a_code_a_reason_a_cause_and_a_next_step(scene, at_home, name):
    code, reason, prepare = CASES[name]
    argv = prepare(scene)
    tpuctl = scene.tpuctl
    if name in HOMES_OF_THEIR_OWN:
        (scene.directory / "local").symlink_to(scene.cloud.home / "local")
        tpuctl = at_home(scene.directory, sleep=lambda _s: None)
    with supervisor_lock.hold(scene.cloud.home, "local") if reason == "locked" else nullcontext():
        result = tpuctl("-o", "json", *argv)
    assert result.code == code, result.err
    (told,) = [json.loads(line) for line in result.err.splitlines() if line.startswith("{")]
    assert (told["exit_code"], told["reason"]) == (code, reason)
    assert told["error"] == " ".join(told["error"].split())
    assert told.get("hint"), told["error"]
    assert "Traceback" not in result.err
    if result.out:
        json.loads(result.out)
    assert f"| {code} | `{reason}` |" in PAGE.read_text("utf-8")
