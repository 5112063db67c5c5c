"""What submit refuses and what it leaves in the bucket."""

import io
import os
import platform
import stat
import sys
import tarfile
from dataclasses import replace

import pytest

from tpuctl import config
from tpuctl.errors import (
    ConflictError,
    PreconditionError,
    RefusedError,
    TransientError,
    UsageError,
)
from tpuctl.jobs.leases import lease
from tpuctl.jobs.local import supervisor_lock
from tpuctl.jobs.record import record_store
from tpuctl.jobs.submit.job_submission import Submitter, default_owner, ensure_supervisor, submit
from tpuctl.jobs.submit.shared_checkpoints import refuse_shared_checkpoints, withdraw_if_shared
from tpuctl.jobs.submit.submit_warnings import warnings_for
from tpuctl.models.inference.serve_spec import ServeSpec
from tpuctl.models.job import Checkpoints, JobRecord, JobSpec, JobState, Resources, Teardown

SPEC = JobSpec(name="digits", run="true", resources=Resources("v5litepod-16"))


def submitted(world, spec=SPEC, node=None, **extra):
    return submit(spec, world.outside, Submitter("me", **extra), now_s=7.0, node=node)


def test_a_job_is_a_record_a_workdir_and_a_lease_that_nobody_holds(world, tmp_path):
    (tmp_path / "work").mkdir()
    job = submitted(world, replace(SPEC, workdir=str(tmp_path / "work")))
    assert job.job_id.startswith("digits-")
    assert record_store.load(world.store, job.job_id).record == job
    assert world.store.head(f"tpuctl/jobs/{job.job_id}/workdir.tar.gz") is not None
    assert [each.holder for each in lease.list_leases(world.store, {})] == [""]


def test_what_the_job_requires_the_context_must_provide(world):
    needs = replace(SPEC, requires="special-core")
    with pytest.raises(PreconditionError) as caught:
        submitted(world, needs)
    assert str(caught.value) == (
        "job requires 'special-core', which context 'here' does not provide"
    )
    assert submitted(world, needs, provides=frozenset({"special-core"})).state == "QUEUED"


def test_a_slice_must_be_named_one_way_or_the_other(world):
    with pytest.raises(UsageError, match=r"no resources\.accelerators"):
        submitted(world, replace(SPEC, resources=Resources()))
    with pytest.raises(UsageError, match="v5litepod-16 is not offered in us-central2-b"):
        elsewhere = Resources("v5litepod-16", zones=("us-central2-b",))
        submitted(world, replace(SPEC, resources=elsewhere))


def test_the_record_has_what_was_decided_here(world):
    spec = replace(SPEC, resources=Resources("v5litepod-16", use_spot=True, num_slices=2))
    job = submitted(world, spec, host_id="place", regions=frozenset({"us-west4"}))
    assert (job.zone, job.zones) == ("us-west4-a", ("us-west4-a", "us-west4-b"))
    assert job.usd_per_hour == pytest.approx(2 * 9.712)
    assert job.host_id == "place"


def test_two_jobs_do_not_share_their_checkpoints(world):
    first = submitted(world, replace(SPEC, checkpoints=Checkpoints("gs://b/runs/digits")))
    again = replace(SPEC, name="more", checkpoints=Checkpoints("gs://b/runs/digits/"))
    with pytest.raises(ConflictError) as caught:
        submitted(world, again)
    assert str(caught.value) == (
        f"job '{first.job_id}' is QUEUED and keeps its checkpoints in gs://b/runs/digits"
    )
    refuse_shared_checkpoints(world.store, again, but=first.job_id)
    submitted(world, replace(again, checkpoints=Checkpoints("gs://b/runs/other")))
    stored = record_store.load(world.store, first.job_id)
    record_store.save(world.store, replace(stored.record, state=JobState.FAILED), stored.generation)
    assert submitted(world, again).state == "QUEUED"


SHARED = replace(SPEC, checkpoints=Checkpoints("gs://b/runs/digits"))


class AtOnce:
    """A store that shows a submitter no lease until its own record is there."""

    def __init__(self, store):
        self.store = store
        self.hides = True

    def __getattr__(self, name):
        return getattr(self.store, name)

    def list(self, prefix=""):
        return [] if self.hides and prefix == lease.LEASES else self.store.list(prefix)

    def put_if_absent(self, key, data):
        self.hides = self.hides and not key.startswith(record_store.RECORDS)
        return self.store.put_if_absent(key, data)


def at_once(world, spec=SHARED):
    outside = replace(world.outside, store=AtOnce(world.store))
    return submit(spec, outside, Submitter("me"), now_s=7.0)


def keys(world):
    return sorted(entry.key for entry in world.store.list())


def test_of_two_jobs_submitted_at_once_the_later_one_leaves_nothing(world, tmp_path):
    (tmp_path / "work").mkdir()
    first = submitted(world, SHARED)
    before = keys(world)
    with pytest.raises(ConflictError, match=f"job '{first.job_id}' is QUEUED"):
        at_once(world, replace(SHARED, workdir=str(tmp_path / "work")))
    assert keys(world) == before


def test_of_two_jobs_submitted_at_once_the_earlier_one_stays(world):
    first = record_store.load(world.store, submitted(world, SHARED).job_id)
    second = replace(first.record, job_id="digits-ffffff")
    lease.offer(world.store, second.job_id, "me")
    record_store.create(world.store, second)
    withdraw_if_shared(world.store, first)
    assert record_store.load(world.store, first.record.job_id) == first


def test_a_job_in_somebodys_care_was_first_and_one_that_was_taken_meanwhile_is_cancelled(world):
    mine = record_store.load(world.store, submitted(world, SHARED).job_id)
    record_store.save(world.store, replace(mine.record, fence=1), mine.generation)
    other = replace(mine.record, job_id="digits-ffffff", fence=1)
    lease.offer(world.store, other.job_id, "me")
    record_store.create(world.store, other)
    with pytest.raises(ConflictError, match="digits-ffffff"):
        withdraw_if_shared(world.store, mine)
    assert record_store.load(world.store, mine.record.job_id).record.cancel_requested_s == 7.0


def test_a_file_that_is_insisted_on_goes_along(world, tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "sa.json").write_text('{"type": "service_account", "private_key": "x"}')
    spec = replace(SPEC, workdir=str(tmp_path / "work"))
    assert submitted(world, spec, include=("sa.json",)).workdir_sha256


def test_a_secrets_file_is_not_sent(world, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    (work / "token").write_text("hf_secret")
    spec = replace(SPEC, workdir=str(work), secrets={"T": f"file:{work / 'token'}"})
    said = []
    job = submitted(world, spec, include=("token",), say=said.append)
    data = world.store.get_range(f"tpuctl/jobs/{job.job_id}/workdir.tar.gz")
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert tar.getnames() == []
    assert said == ["token is a secret's file: it is not sent with the workdir"]


DOUBTFUL = JobRecord(
    "digits-1", SPEC, "me", 0.0, "us-west4-a", "v5litepod-16", zones=("us-west4-a",),
    usd_per_hour=19.2,
)  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "node", "lines"),
    [
        (SPEC, None, []),
        (
            replace(SPEC, teardown=Teardown.NEVER),
            None,
            ["teardown is never: the job's slices stay and cost 19.20 USD/h until somebody "
             "deletes them"],
        ),
        (replace(SPEC, teardown=Teardown.NEVER), "mine", []),
        (
            replace(SPEC, resources=Resources("v5litepod-16", use_spot=True)),
            None,
            ["spot slices are preempted: without checkpoints the program starts from step 0"],
        ),
        (
            replace(
                SPEC,
                resources=Resources("v5litepod-4", use_spot=True),
                serve=ServeSpec("engine", 8000),
            ),
            None,
            [],
        ),
        (
            replace(SPEC, resources=Resources(num_slices=2, runtime_version="tpu-vm-tf-9.9.9")),
            None,
            ["tpu-vm-tf-9.9.9 has TensorFlow, which does not work across slices",
             "tpu-vm-tf-9.9.9 is not in the catalog: the Cloud TPU API decides"],
        ),
        (
            replace(SPEC, resources=Resources(zones=("us-west1-c",))),
            "mine",
            ["resources.zones says nothing about a slice that exists already"],
        ),
    ],
)  # fmt: skip
def test_what_may_surprise_is_said(spec, node, lines):
    assert warnings_for(replace(DOUBTFUL, spec=spec, node=node)) == lines


def test_nothing_is_left_behind_by_a_refused_workdir(world, tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "sa.json").write_text('{"type": "service_account", "private_key": "x"}')
    with pytest.raises(RefusedError):
        submitted(world, replace(SPEC, workdir=str(tmp_path / "work")))
    assert list(world.store.list("")) == []


def test_an_owner_without_a_name_is_a_number(monkeypatch):
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)
    assert default_owner() == f"4000000000@{platform.node()}"


SITTING = """
import os, signal, sys
from pathlib import Path
from tpuctl import config
from tpuctl.jobs.local import supervisor_lock

print("supervising", *{"TPUCTL_RECORD", config.TPU_OVERRIDE} & set(os.environ), flush=True)
with supervisor_lock.hold(Path(sys.argv[1]), "here"):
    signal.pause()
"""


@pytest.mark.system
def test_a_supervisor_is_started_once_in_the_background(world):
    argv = [sys.executable, "-c", SITTING, str(world.home)]
    ensure_supervisor(world.home, "here", argv)
    pid = supervisor_lock.holder_pid(world.home, "here")
    ensure_supervisor(world.home, "here", argv)
    assert supervisor_lock.holder_pid(world.home, "here") == pid
    supervisor_lock.stop_supervisor(world.home, "here")
    os.waitpid(pid, 0)
    log = supervisor_lock.log_path(world.home, "here")
    assert log.read_text() == "supervising\n"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


@pytest.mark.system
def test_a_recording_ends_with_its_command_and_not_with_the_supervisor(world, monkeypatch):
    monkeypatch.setenv(config.RECORD_VARIABLE, "cassette.jsonl")
    monkeypatch.setenv(config.TPU_OVERRIDE, "http://127.0.0.1:1/")
    ensure_supervisor(world.home, "here", [sys.executable, "-c", SITTING, str(world.home)])
    pid = supervisor_lock.holder_pid(world.home, "here")
    supervisor_lock.stop_supervisor(world.home, "here")
    os.waitpid(pid, 0)
    assert supervisor_lock.log_path(world.home, "here").read_text() == "supervising\n"


@pytest.mark.system
def test_a_supervisor_that_does_not_start_is_told_at_once(world):
    with pytest.raises(TransientError, match="the supervisor does not start"):
        ensure_supervisor(world.home, "here", [sys.executable, "-c", "raise SystemExit(1)"])
