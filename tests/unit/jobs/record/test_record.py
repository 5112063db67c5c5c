"""Records, leases, log segments and tails over a directory store."""

import json
from dataclasses import replace

import pytest

from tpuctl.errors import DamagedStateError, NotFoundError, PreconditionError, UsageError
from tpuctl.jobs import client
from tpuctl.jobs.record import record_store
from tpuctl.jobs.workers.log_tail import LogTail
from tpuctl.models.job import (
    Attempt,
    AttemptOutcome,
    AttemptState,
    Checkpoints,
    EventKind,
    JobEvent,
    JobRecord,
    JobSpec,
    JobState,
    Phase,
    ProofResult,
    Resources,
    SwitchProof,
    WorkerReport,
)
from tpuctl.models.node import BootDisk, DataDisk
from tpuctl.models.slice_options import SliceOptions
from tpuctl.store import open_store

PROOF = SwitchProof(ProofResult.REFUSED, "may not: 403")
JOB = JobRecord(
    job_id="digits-a1b2c3",
    spec=JobSpec(
        name="digits", run="true", envs={"A": "1"}, resources=Resources("v5litepod-16"),
        checkpoints=Checkpoints("gs://b/c"),
    ),
    owner="me@here",
    submitted_s=1.5,
    zone="us-west4-a",
    accelerator_type="v5litepod-16",
    attempts=(
        Attempt(
            1, "us-west4-a", "n", AttemptState.ENDED, owned=True, outcome=AttemptOutcome.PREEMPTED,
            workers=(
                WorkerReport(0, Phase.ENDED, exit_status=1, metrics={"loss": 0.5}, switch=PROOF),
            ),
        ),
    ),
    events=(JobEvent(2.0, "it began"), JobEvent(3.0, "no", EventKind.SWITCH)),
)  # fmt: skip


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path))


def test_a_record_comes_back_as_it_was(store):
    created = record_store.create(store, JOB)
    assert record_store.load(store, JOB.job_id) == created
    assert created.record == JOB


def test_a_record_is_replaced_only_by_who_saw_it(store):
    first = record_store.create(store, JOB)
    record_store.save(store, replace(JOB, why="new"), first.generation)
    with pytest.raises(PreconditionError):
        record_store.save(store, replace(JOB, why="stale"), first.generation)
    with pytest.raises(PreconditionError):
        record_store.create(store, JOB)


def test_the_options_of_slices_come_back_and_are_the_default_in_older_records(store):
    options = SliceOptions(
        network="vpc-1", internal_ips=False, labels={"a": "b"}, scopes=("s",),
        data_disks=(DataDisk("d"),), boot_disk=BootDisk("k"), max_run_duration_s=60.0,
    )  # fmt: skip
    spec = replace(JOB.spec, resources=Resources("v5litepod-16", options=options))
    created = record_store.create(store, replace(JOB, spec=spec))
    assert record_store.load(store, JOB.job_id) == created
    older = json.loads(store.get_range(record_store.record_key(JOB.job_id)))
    del older["spec"]["resources"]["options"]
    found = record_store.decode(json.dumps(older).encode(), JOB.job_id)
    assert found.spec.resources == Resources("v5litepod-16")


def test_a_newer_schema_and_damage_are_told(store):
    newer = {**json.loads(record_store.encode(JOB)), "schema": 5}
    with pytest.raises(DamagedStateError, match="newer tpuctl"):
        record_store.decode(json.dumps(newer).encode(), JOB.job_id)
    older = {**newer, "schema": 2}
    with pytest.raises(DamagedStateError, match="its schema is 2, this tpuctl reads 4"):
        record_store.decode(json.dumps(older).encode(), JOB.job_id)


def test_a_field_of_a_later_version_is_ignored(store):
    later = {**json.loads(record_store.encode(JOB)), "colour": "red"}
    assert record_store.decode(json.dumps(later).encode(), JOB.job_id) == JOB


def test_cancel_is_asked_once_and_not_of_an_ended_job(store):
    record_store.create(store, JOB)
    assert client.cancel(store, JOB.job_id, 5.0).cancel_requested_s == 5.0
    assert client.cancel(store, JOB.job_id, 6.0).cancel_requested_s == 5.0


def test_jobs_are_listed_newest_first_and_found_by_name(store):
    record_store.create(store, JOB)
    later = replace(JOB, job_id="digits-ffffff", submitted_s=9.0)
    record_store.create(store, later)
    store.put_if_absent("tpuctl/jobs/digits-ffffff/logs/a1/w0/000000000000", b"x")
    assert client.list_jobs(store) == [later, JOB]
    assert client.describe(store, "digits-a1b2c3") == JOB
    with pytest.raises(NotFoundError):
        client.describe(store, "nope")
    with pytest.raises(UsageError, match="2 open jobs are named 'digits'") as raised:
        client.describe(store, "digits")
    assert raised.value.hint == "say which: digits-ffffff (QUEUED), digits-a1b2c3 (QUEUED)"


def test_a_name_is_that_of_the_job_that_is_open_or_of_the_newest(store):
    ended = replace(JOB, state=JobState.FAILED, attempts=())
    for number, state in enumerate((JobState.FAILED, JobState.RUNNING, JobState.CANCELLED)):
        one = replace(ended, job_id=f"digits-00000{number}", submitted_s=number, state=state)
        stored = record_store.create(store, one)
        if state == JobState.RUNNING:
            running = stored
    assert client.describe(store, "digits").job_id == "digits-000001"
    record_store.save(store, replace(running.record, state=JobState.FAILED), running.generation)
    assert client.describe(store, "digits").job_id == "digits-000002"


def test_an_unreadable_record_hides_no_other_job(store):
    record_store.create(store, JOB)
    store.put_if_absent("tpuctl/records/torn-ffffff", b'{"schema": 1, "job_id"')
    store.put_if_absent("tpuctl/records/later-ffffff", b'{"schema": 5}')
    told = []
    assert client.list_jobs(store, lambda error: told.append(str(error))) == [JOB]
    assert told[0] == "job 'later-ffffff' was written by a newer tpuctl"
    assert told[1].startswith("the record of job 'torn-ffffff' cannot be read: ")
    assert client.describe(store, "digits") == JOB


@pytest.mark.parametrize(
    ("state", "outcome", "code"),
    [
        (JobState.SUCCEEDED, AttemptOutcome.SUCCEEDED, None),
        (JobState.FAILED, AttemptOutcome.FAILED, 71),
        (JobState.FAILED, AttemptOutcome.LOST, 71),
        (JobState.FAILED, AttemptOutcome.PREEMPTED, 31),
        (JobState.FAILED, AttemptOutcome.REFUSED, 30),
        (JobState.CANCELLED, AttemptOutcome.CANCELLED, 71),
    ],
)
def test_how_a_job_ended_is_an_exit_code(state, outcome, code):
    attempt = replace(JOB.attempts[0], outcome=outcome)
    error = client.error_of(replace(JOB, state=state, attempts=(attempt,), ended_by_attempt=1))
    assert (error.exit_code if error else None) == code


def test_a_job_that_ended_between_two_attempts_is_not_worth_what_the_last_one_was():
    lost = replace(JOB.attempts[0], outcome=AttemptOutcome.PREEMPTED, reason="node n is PREEMPTED")
    job = replace(JOB, state=JobState.FAILED, attempts=(lost,), why="no v5litepod-16 within 60 s")
    error = client.error_of(job)
    assert (error.exit_code, str(error)) == (
        71, "job 'digits-a1b2c3' failed: no v5litepod-16 within 60 s",
    )  # fmt: skip
    assert client.error_of(replace(job, ended_by_attempt=1)).exit_code == 31


def test_a_hung_job_leads_to_its_stacks():
    hung = replace(JOB.attempts[0], outcome=AttemptOutcome.HUNG, reason="no line for 60 s")
    job = replace(JOB, state=JobState.FAILED, attempts=(hung,), why="no line for 60 s")
    assert client.error_of(job).hint == "run: tpuctl job bundle digits-a1b2c3"


@pytest.mark.parametrize(
    ("refusal", "code"), [("usage", 2), ("permission_denied", 21), ("no_capacity", 30), ("", 30)]
)
def test_a_refused_slice_is_worth_the_exit_code_of_the_refusal(refusal, code):
    attempt = replace(JOB.attempts[0], outcome=AttemptOutcome.REFUSED, refusal=refusal)
    ended = replace(JOB, state=JobState.FAILED, attempts=(attempt,), ended_by_attempt=1)
    error = client.error_of(ended)
    assert error.exit_code == code


def test_a_tail_saves_the_whole_lines_that_the_bucket_lacks(store):
    tail = LogTail()
    assert tail.add(10, b"aaa\nbbb\n") == b"aaa\nbbb\n"
    assert tail.add(14, b"bbb\nccc\ncut") == b"ccc\ncut"
    store.put_if_absent("logs/000000000010", b"aaa\n")
    tail.save(store, "logs")
    assert store.get_range("logs/000000000014") == b"bbb\nccc\n"
    assert bytes(tail.data) == b"cut"


def test_a_tail_forgets_what_is_safe(store):
    tail = LogTail()
    tail.add(0, b"aaa\nbbb\n")
    tail.drop(4)
    assert (tail.start, bytes(tail.data)) == (4, b"bbb\n")
    tail.drop(100)
    assert (tail.start, bytes(tail.data)) == (8, b"")
    tail.add(4, b"bbb\nccc\n")
    assert (tail.start, bytes(tail.data)) == (8, b"ccc\n")
