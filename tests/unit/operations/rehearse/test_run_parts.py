"""The parts of a run: its buckets, its environment, its directory and its evidence."""

import fcntl
import json
import shutil
from contextlib import ExitStack
from dataclasses import asdict

import pytest

from tpuctl.config import DEFAULT_CONTEXT
from tpuctl.errors import LocalIOError
from tpuctl.models.job import Checkpoints, JobRecord, JobSpec, JobState
from tpuctl.models.job_log import LogLine
from tpuctl.models.rehearsal.evidence import CheckpointCheck, FiredEntry, RunEvidence
from tpuctl.models.rehearsal.request_log import StorageRequest
from tpuctl.models.rehearsal.verdict import Judgement, ReferenceVerdict
from tpuctl.operations.local import local_cloud
from tpuctl.operations.rehearse import rehearsal_folder, run_evidence
from tpuctl.operations.rehearse.run_buckets import bucket_names
from tpuctl.operations.rehearse.run_cloud import without_redirections

SPEC = JobSpec(
    name="digits",
    run="python3 train.py --log gs://logs.example/x",
    envs={"DATA": "gs://my-data/set,gs://my-data/more", "STEPS": "3"},
    file_mounts={"/words": "gs://words"},
    checkpoints=Checkpoints("gs://local-bucket/runs/digits"),
)


def test_every_bucket_that_a_job_names_is_found():
    found = bucket_names(SPEC, {"gs://pushed/data": "/home/ada/data"})
    assert found == ["local-bucket", "logs.example", "my-data", "pushed", "words"]


def test_nothing_that_leads_to_another_cloud_is_inherited():
    given = {
        "PATH": "/bin",
        "HOME": "/home/ada",
        "TPUCTL_CONTEXT": "prod",
        "TPUCTL_HOME": "/elsewhere",
        "STORAGE_EMULATOR_HOST": "http://127.0.0.1:1",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": "http://127.0.0.1:2/",
    }
    assert without_redirections(given) == {"PATH": "/bin", "HOME": "/home/ada"}


FAILED = ReferenceVerdict(Judgement.FAIL, ())
EVIDENCE = RunEvidence(
    job=JobRecord("digits-1", SPEC, "ada@desk", 1.0, "us-west4-a", "v4-8", state=JobState.FAILED),
    exit_code=71,
    error="job 'digits-1' failed",
    lines=(LogLine(1, 0, 2.5, "step=1 loss=0.5"),),
    requests=(StorageRequest(1, "storage.objects.insert", "b", "o", "n/0", 2.0, None, 0, 9, 7, 0),),
    fired=(FiredEntry("kill", 2.0, 1),),
    objects={"b/o": 9},
    checkpoint=CheckpointCheck("tpuctl", (2,), (4,), "step 4 is torn"),
    leftovers=("node us-west4-a/x READY",),
)


def test_evidence_is_kept_as_json(tmp_path):
    run_evidence.save_evidence(tmp_path, EVIDENCE)
    document = json.loads((tmp_path / "evidence.json").read_text("utf-8"))
    assert document == json.loads(json.dumps(asdict(EVIDENCE)))


def test_a_run_has_a_directory_of_the_name_of_its_moment(tmp_path):
    path = rehearsal_folder.run_directory(tmp_path, "save:middle/none#2")
    assert path == tmp_path / "save-middle-none#2"


def test_a_rehearsal_without_failed_runs_leaves_nothing(tmp_path):
    with rehearsal_folder.open_rehearsal(tmp_path, "digits", "a1b2c3") as path:
        assert path == tmp_path / "rehearsals" / "digits-a1b2c3"
        assert rehearsal_folder.end_abandoned_runs(tmp_path) == []
    assert not path.exists()


def test_a_disk_without_room_is_told_before_anything_begins(tmp_path, monkeypatch):
    free = shutil.disk_usage(tmp_path)._replace(free=5 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: free)
    with (
        pytest.raises(LocalIOError) as caught,
        rehearsal_folder.open_rehearsal(tmp_path, "digits", "a1b2c3"),
    ):
        pass
    folder = tmp_path / "rehearsals"
    assert str(caught.value) == (
        f"a rehearsal needs 64 MiB on the disk of {folder}, where 5 MiB are free"
    )
    assert list(folder.iterdir()) == []


def test_what_a_killed_rehearsal_left_is_ended_and_what_was_judged_is_kept(tmp_path):
    killed = tmp_path / "rehearsals" / "digits-a1b2c3"
    for run in ("reference", "save-middle-none"):
        (killed / run).mkdir(parents=True)
    (killed / "lock").touch()
    rehearsal_folder.keep_run(killed / "save-middle-none", FAILED)
    assert rehearsal_folder.end_abandoned_runs(tmp_path) == [str(killed / "reference")]
    assert rehearsal_folder.run_directories(killed) == [killed / "save-middle-none"]


def test_a_run_that_still_ends_when_ctrl_c_comes_twice_is_deleted_by_the_next_rehearsal(tmp_path):
    with (
        pytest.raises(KeyboardInterrupt),
        ExitStack() as simulator,
        rehearsal_folder.open_rehearsal(tmp_path, "digits", "a1b2c3") as path,
    ):
        state = local_cloud.state_directory(path / "reference", DEFAULT_CONTEXT)
        state.mkdir(parents=True)
        (state / local_cloud.MARKER).touch()
        lock = simulator.enter_context((state / "lock").open("w"))
        fcntl.flock(lock, fcntl.LOCK_EX)
        (path / "unmarked" / "local" / "local").mkdir(parents=True)
        raise KeyboardInterrupt
    assert rehearsal_folder.run_directories(path) == [path / "reference"]
    assert rehearsal_folder.end_abandoned_runs(tmp_path) == [str(path / "reference")]
    assert not path.exists()


def test_a_rehearsal_that_is_broken_off_leaves_only_what_was_judged(tmp_path):
    with (
        pytest.raises(KeyboardInterrupt),
        rehearsal_folder.open_rehearsal(tmp_path, "digits", "a1b2c3") as path,
    ):
        for run in ("reference", "save-middle-none"):
            (path / run).mkdir()
        rehearsal_folder.keep_run(path / "save-middle-none", FAILED)
        raise KeyboardInterrupt
    assert rehearsal_folder.run_directories(path) == [path / "save-middle-none"]
