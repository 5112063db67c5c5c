"""The dead man's switch: when a slice deletes itself, and above all when it does not."""

import fcntl
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote

import pytest

from tpuctl.agent.job.state import processes
from tpuctl.agent.tools import deadman_switch
from tpuctl.jobs.leases import lease as leasing
from tpuctl.jobs.record import record_store as records
from tpuctl.jobs.record import status_text
from tpuctl.jobs.slices import switch_setup as switches
from tpuctl.jobs.spec.file_slice_options import SWITCH_BYTES
from tpuctl.jobs.workers import protocol
from tpuctl.models.job import (
    Attempt,
    AttemptState,
    Budget,
    JobRecord,
    JobSpec,
    JobState,
    ProofResult,
    SwitchProof,
    Teardown,
    Timeouts,
)
from tpuctl.models.limits import switch_script
from tpuctl.models.search import Candidate
from unit.agent.bucket_server import MISSING, BucketServer, Handler, serving

JOB = "digits-a1b2c3"
SLICE = f"{JOB}-a1"
PARENT = "/v2/projects/demo/locations/us-west4-a/queuedResources/"
MINUTE_S = 60.0
PATIENCE_MINUTES = 4
LONG_MINUTES = 15
PATIENT = {"patience_s": PATIENCE_MINUTES * MINUTE_S}
WELL = {"phase": "ended", "stage": "run", "exit_status": 0}
BADLY = {"phase": "ended", "stage": "run", "exit_status": 1}
FORBIDDEN = {"error": {"code": 403, "status": "PERMISSION_DENIED", "message": "not allowed"}}
ARMED = SwitchProof(ProofResult.ARMED, "armed")
FORBIDDEN_PROOF = SwitchProof(ProofResult.REFUSED, "may not: 403 PERMISSION_DENIED")
RUNNING = Attempt(
    1, "us-west4-a", SLICE, AttemptState.RUNNING, owned=True, queued_resource=SLICE,
    worker_count=2, requested_s=0.0, ready_s=100.0, started_s=200.0,
)  # fmt: skip
WAITING = Attempt(
    1, "us-west4-a", SLICE, AttemptState.WAITING, owned=True, queued_resource=SLICE, requested_s=0.0
)


class CloudHandler(Handler):
    """Notes what the switch asks, and answers its deletions as a test wants it."""

    server: "BucketServer"

    def do_GET(self) -> None:
        if self.path.startswith("/storage/"):
            if self.server.away:
                return self.answer(503, b"")
            key = self.path.partition("/o/")[2].partition("?")[0].replace("%2F", "/")
            self.server.reads.append(key)
        return super().do_GET()

    def do_DELETE(self) -> None:
        self.server.deletions.append((self.path, self.headers["Authorization"]))
        proof = "/tpuctl-proof-" in self.path
        status, document = self.server.proof if proof else self.server.deletion
        self.answer(status, json.dumps(document).encode())


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("bucket")) as server:
        server.RequestHandlerClass = CloudHandler
        yield server


class Slice:
    """A slice's worker 0 whose clock is in the test's hand, and the bucket of its job."""

    def __init__(self, server, path: Path) -> None:
        self.server, self.path, self.store = server, path, server.store
        self.now_s = 1000.0
        for entry in list(self.store.list()):
            self.store.delete(entry.key)
        server.away, server.reads, server.deletions = False, [], []
        server.proof, server.deletion = (404, MISSING), (200, {"name": "operations/1"})
        self.stored = None
        self.beats = 0
        leasing.take(self.store, leasing.offer(self.store, JOB, "me"), "seat-1")
        self.beat()

    def beat(self) -> None:
        self.beats = self.replace(
            f"{leasing.HEARTBEATS}seat-1", json.dumps({"beat": self.beats + 1})
        )

    def replace(self, key: str, text: str) -> int:
        entry = self.store.head(key)
        if entry is None:
            return self.store.put_if_absent(key, text.encode()).generation
        return self.store.put_if_generation(key, text.encode(), entry.generation).generation

    def job(self, *attempts: Attempt, arm: bool = True, **fields) -> None:
        """What the record says; the first time the switch is told of the last attempt."""
        given = {"timeouts": Timeouts(setup_s=360.0), "teardown": Teardown.ALWAYS}
        of_spec = ("timeouts", "teardown", "budget")
        given |= {key: fields.pop(key) for key in of_spec if key in fields}
        record = JobRecord(
            JOB, JobSpec(name="digits", run="true", **given), "me", 0.0, "us-west4-a",
            "v5litepod-8", attempts=attempts, **{"state": JobState.RUNNING, **fields},
        )  # fmt: skip
        self.replace(f"{records.RECORDS}{JOB}", records.encode(record).decode())
        if arm and not self.path.exists():
            outside = SimpleNamespace(
                project="demo", storage_endpoint=self.server.endpoint, bucket="b"
            )
            config = switches.switch_config(outside, record, attempts[-1])
            self.path.write_text(json.dumps({**config, "tpu": self.server.endpoint, **PATIENT}))

    def final(self, worker: int, status: dict, attempt: int = 1) -> None:
        key = f"{records.job_directory(JOB)}/status/a{attempt}/w{worker}"
        self.store.put_if_absent(key, json.dumps(status).encode())

    def check(self) -> int:
        return deadman_switch.check(self.path, self.now_s)

    def minutes(self, count: int, *, alive: bool = False) -> None:
        """A check at every minute."""
        for _ in range(count):
            self.now_s += MINUTE_S
            if alive:
                self.beat()
            self.check()

    @property
    def is_deleted(self) -> bool:
        return any(path == f"{PARENT}{SLICE}?force=true" for path, _ in self.server.deletions)

    @property
    def said(self) -> str:
        return (self.path.parent / "switch.log").read_text().splitlines()[-1]


@pytest.fixture
def slice_(server, tmp_path, monkeypatch):
    monkeypatch.setenv("GCE_METADATA_HOST", server.address)
    monkeypatch.setattr(deadman_switch, "RETRY_PAUSE_S", 0.0)
    return Slice(server, tmp_path / "switch.json")


# --------------------------------------------------------------- it deletes what nobody needs


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ({"state": JobState.FAILED}, "the job is FAILED"),
        ({"state": JobState.SUCCEEDED}, "the job has SUCCEEDED"),
        ({"state": JobState.CANCELLED}, "the job is CANCELLED"),
        ({"cancel_requested_s": 5.0}, "the job was to be cancelled"),
    ],
)
def test_a_job_that_is_over_and_whose_supervisor_died_before_the_teardown(slice_, what, why):
    slice_.job(RUNNING, **what)
    slice_.minutes(PATIENCE_MINUTES)
    assert not slice_.is_deleted
    slice_.minutes(1)
    assert slice_.is_deleted
    assert why in slice_.said


def test_all_final_statuses_are_there_and_nobody_reads_them(slice_):
    slice_.job(RUNNING)
    slice_.final(0, WELL)
    slice_.final(1, WELL)
    slice_.minutes(PATIENCE_MINUTES + 1)
    assert slice_.is_deleted


def test_one_worker_that_failed_has_ended_the_attempt_for_all(slice_):
    slice_.job(RUNNING)
    slice_.final(1, BADLY)
    slice_.minutes(PATIENCE_MINUTES + 1)
    assert slice_.is_deleted
    assert "worker 1 ended, and not well" in slice_.said


def test_nobody_came_back_after_the_request_so_it_is_never_prepared(slice_):
    slice_.job(WAITING, state=JobState.WAITING)
    slice_.minutes(6)
    assert not slice_.is_deleted
    slice_.minutes(2)
    assert slice_.is_deleted
    assert "not started within 360 s" in slice_.said


def test_the_record_of_a_job_is_still_QUEUED_when_its_slice_is_there(slice_):
    slice_.job(WAITING, state=JobState.QUEUED)
    slice_.minutes(8)
    assert slice_.is_deleted


def test_the_run_is_past_its_deadline(slice_):
    slice_.job(RUNNING, timeouts=Timeouts(run_s=600.0))
    slice_.minutes(10)
    assert not slice_.is_deleted
    slice_.minutes(2)
    assert slice_.is_deleted
    assert "not done within 600 s" in slice_.said


def test_what_earlier_attempts_ran_counts_for_the_deadline(slice_):
    second = replace(RUNNING, number=2, started_s=200.0 + 3000.0)
    slice_.job(RUNNING, second, timeouts=Timeouts(run_s=3600.0))
    slice_.minutes(12)
    assert slice_.is_deleted


def test_the_job_goes_on_elsewhere(slice_):
    slice_.job(RUNNING)
    slice_.minutes(3, alive=True)
    elsewhere = replace(RUNNING, number=2, node=f"{JOB}-a2", queued_resource=f"{JOB}-a2")
    slice_.job(RUNNING, elsewhere)
    slice_.minutes(PATIENCE_MINUTES + 1)
    assert slice_.is_deleted


@pytest.mark.parametrize(("withdrawn_s", "is_deleted"), [(None, False), (200.0, True)])
def test_a_slice_that_lost_the_search_goes_and_one_that_may_win_stays(
    slice_, withdrawn_s, is_deleted
):
    mine = Candidate(SLICE, "us-west4-a", "v5litepod-16", withdrawn_s=withdrawn_s)
    name = f"{JOB}-a1c2"
    slice_.job(WAITING)
    slice_.job(replace(WAITING, node=name, queued_resource=name, others=(mine,)))
    slice_.minutes(PATIENCE_MINUTES + 1)
    assert slice_.is_deleted == is_deleted, slice_.said


def test_nobody_ever_had_the_job_in_hand(slice_):
    slice_.store.delete(f"{leasing.LEASES}{JOB}")
    slice_.job(WAITING, state=JobState.QUEUED)
    slice_.minutes(8)
    assert slice_.is_deleted


def test_it_asks_for_the_deletion_with_its_own_token_until_the_slice_is_gone(slice_):
    slice_.job(RUNNING, state=JobState.FAILED)
    slice_.minutes(PATIENCE_MINUTES + 2)  # the operation may fail
    asked = (f"{PARENT}{SLICE}?force=true", "Bearer a-token")
    assert slice_.server.deletions == [asked, asked]
    slice_.server.deletion = (404, MISSING)
    slice_.minutes(1)
    reads = len(slice_.server.reads)
    slice_.now_s += MINUTE_S
    assert slice_.check() == deadman_switch.DONE
    assert len(slice_.server.deletions) == 3
    assert len(slice_.server.reads) == reads


@pytest.mark.parametrize("answer", [(403, FORBIDDEN), (400, {}), (409, {}), (503, {}), (404, {})])
def test_a_deletion_that_is_refused_is_tried_again_at_the_next_check(slice_, answer):
    slice_.server.deletion = answer
    slice_.job(RUNNING, state=JobState.FAILED)
    slice_.minutes(PATIENCE_MINUTES + 3)
    assert len(slice_.server.deletions) == 3
    assert f"cannot delete the slice: {answer[0]}" in slice_.said
    slice_.server.deletion = (200, {})
    slice_.minutes(1)
    assert slice_.said.endswith("deletes the slice")


# --------------------------------------------------------------- it never deletes what may live


def test_a_job_without_a_deadline_runs_on_for_ever_without_a_supervisor(slice_):
    slice_.job(RUNNING)
    slice_.minutes(LONG_MINUTES)
    assert not slice_.is_deleted
    assert "the slice may be needed" in slice_.said


@pytest.mark.parametrize("told", ["preempted", "stopped", "terminated"])
def test_a_program_that_ended_well_because_it_was_told_to_has_not_succeeded(slice_, told):
    slice_.job(RUNNING, teardown=Teardown.ON_SUCCESS)
    for worker in (0, 1):
        slice_.final(worker, {**WELL, told: True})
    slice_.minutes(LONG_MINUTES)
    assert not slice_.is_deleted


def test_some_workers_have_ended_well_and_others_still_work(slice_):
    slice_.job(RUNNING)
    slice_.final(0, WELL)
    slice_.minutes(LONG_MINUTES)
    assert not slice_.is_deleted


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.RUNNING])
def test_a_supervisor_on_another_machine_renews_its_heartbeat(slice_, state):
    slice_.job(RUNNING, state=state, timeouts=Timeouts(run_s=60.0))
    slice_.minutes(LONG_MINUTES, alive=True)
    assert not slice_.is_deleted


def test_one_renewal_in_all_the_time_begins_the_patience_anew(slice_):
    slice_.job(RUNNING, state=JobState.FAILED)
    slice_.minutes(PATIENCE_MINUTES)
    slice_.minutes(1, alive=True)
    slice_.minutes(PATIENCE_MINUTES - 1)
    assert not slice_.is_deleted
    slice_.minutes(1)
    assert slice_.is_deleted


def test_a_lease_that_changes_hands_is_a_sign_of_life(slice_):
    slice_.job(RUNNING, state=JobState.FAILED)
    slice_.minutes(PATIENCE_MINUTES)
    leasing.take(slice_.store, leasing.load_lease(slice_.store, JOB), "other-2")
    slice_.minutes(PATIENCE_MINUTES)
    assert not slice_.is_deleted


def test_somebody_comes_back_between_the_decision_and_the_deletion(slice_, monkeypatch):
    slice_.job(RUNNING, state=JobState.FAILED)
    slice_.minutes(PATIENCE_MINUTES)
    decide = deadman_switch.deletion_reason

    def meanwhile(*given):
        slice_.beat()
        return decide(*given)

    monkeypatch.setattr(deadman_switch, "deletion_reason", meanwhile)
    slice_.minutes(1)
    assert not slice_.is_deleted
    assert slice_.said.endswith("somebody is back")


def test_a_job_that_was_tried_again_is_not_over_any_more(slice_):
    slice_.job(RUNNING, state=JobState.FAILED)
    slice_.minutes(PATIENCE_MINUTES)
    again = replace(RUNNING, number=2, state=AttemptState.PREPARING, started_s=None)
    slice_.final(0, BADLY)
    slice_.job(RUNNING, again, state=JobState.RECOVERING, retried_after=1)
    slice_.minutes(PATIENCE_MINUTES + 2)
    assert not slice_.is_deleted


def test_a_bucket_that_cannot_be_read_says_nothing_and_begins_the_patience_anew(slice_):
    slice_.job(RUNNING, state=JobState.FAILED)
    slice_.minutes(PATIENCE_MINUTES)
    slice_.server.away = True
    slice_.minutes(LONG_MINUTES)
    assert "not known: cannot read tpuctl/leases" in slice_.said
    slice_.server.away = False
    slice_.minutes(PATIENCE_MINUTES - 1)
    assert not slice_.is_deleted
    slice_.minutes(1)
    assert slice_.is_deleted


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", '{"schema": 4}', '{"schema": 5, "state": "FAILED"}'),
        *('{"schema": 4, "state": "FAILED", "attempts": []}', '{"schema": 2, "state": "FAILED"}'),
    ],
)
def test_a_record_that_is_damaged_or_of_another_schema_says_nothing(slice_, text):
    slice_.job(RUNNING, state=JobState.FAILED)
    slice_.replace(f"{records.RECORDS}{JOB}", text)
    slice_.minutes(LONG_MINUTES)
    assert not slice_.is_deleted
    assert "not known: " in (slice_.path.parent / "switch.log").read_text()


def test_a_record_that_is_gone_says_nothing(slice_):
    slice_.job(RUNNING, state=JobState.FAILED)
    slice_.store.delete(f"{records.RECORDS}{JOB}")
    slice_.minutes(LONG_MINUTES)
    assert not slice_.is_deleted


def test_a_lease_of_a_newer_tpuctl_says_nothing(slice_):
    slice_.job(RUNNING, state=JobState.FAILED)
    slice_.replace(f"{leasing.LEASES}{JOB}", '{"schema": 2, "kept_by": "something"}')
    slice_.minutes(LONG_MINUTES)
    assert not slice_.is_deleted


def test_a_record_that_does_not_know_the_slice_says_nothing(slice_):
    slice_.job(RUNNING)
    slice_.job(replace(RUNNING, queued_resource="another"), state=JobState.FAILED)
    slice_.minutes(LONG_MINUTES)
    assert not slice_.is_deleted


def test_final_statuses_of_an_earlier_attempt_on_the_same_slice_do_not_count(slice_):
    slice_.job(RUNNING, replace(RUNNING, number=2))
    slice_.final(0, BADLY)
    slice_.final(1, BADLY)
    slice_.minutes(LONG_MINUTES)
    assert not slice_.is_deleted


def test_a_second_attempt_has_its_own_time_to_prepare(slice_):
    slice_.job(RUNNING)
    slice_.minutes(LONG_MINUTES, alive=True)
    slice_.job(RUNNING, replace(RUNNING, number=2, started_s=None), state=JobState.RECOVERING)
    slice_.minutes(6)
    assert not slice_.is_deleted
    slice_.minutes(2)
    assert slice_.is_deleted


@pytest.mark.parametrize("jump_s", [-1e6, 1e6, 86_400.0])
def test_a_clock_that_jumps_or_a_machine_that_was_frozen_makes_nothing_overdue(slice_, jump_s):
    slice_.job(RUNNING, state=JobState.FAILED)
    slice_.minutes(2)
    slice_.now_s += jump_s
    slice_.minutes(PATIENCE_MINUTES - 4)
    assert not slice_.is_deleted
    slice_.minutes(4)
    assert slice_.is_deleted


@pytest.mark.parametrize(
    "damaged",
    [
        '{"quiet_s": 1e9}',
        json.dumps({**deadman_switch.NEW_STATE, "quiet_s": None, "checked_s": "x"}),
    ],
)
def test_a_state_that_was_damaged_begins_the_patience_anew(slice_, damaged):
    slice_.job(RUNNING, state=JobState.FAILED)
    slice_.minutes(PATIENCE_MINUTES)
    (slice_.path.parent / "switch.state").write_text(damaged)
    slice_.minutes(PATIENCE_MINUTES)
    assert not slice_.is_deleted
    slice_.minutes(1)
    assert slice_.is_deleted


# --------------------------------------------------------------- runs that died, budgets


GONE = {"phase": "running", "agent_pid": 2**22 + 1, "agent_started": 1, "pid": 2**22 + 2}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The directory of attempt 1 on this worker, as an agent that was killed leaves it."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    directory = tmp_path / "home" / protocol.run_directory(JOB, 1)
    directory.mkdir(parents=True)
    (directory / "lock").touch()
    (directory / "status.json").write_text(json.dumps(GONE))
    return directory


def test_a_run_that_died_here_ends_the_attempt_after_the_patience(slice_, run):
    slice_.job(RUNNING)
    (run / "status.json").write_text(json.dumps({**GONE, "pid": os.getpgrp()}))
    slice_.minutes(LONG_MINUTES)
    (run / "status.json").write_text(json.dumps(GONE))
    slice_.minutes(PATIENCE_MINUTES)
    assert not slice_.is_deleted
    slice_.minutes(1)
    assert slice_.is_deleted
    assert "the run on this worker died" in slice_.said


@pytest.mark.parametrize(
    "status",
    [
        {"agent_pid": os.getpid(), "agent_started": processes.start_ticks(os.getpid())},
        {"pid": os.getpgrp()},
        WELL,
        {"agent_pid": None, "agent_started": None, "pid": os.getpgrp()},
    ],
    ids=["agent lives", "program lives", "ended well", "nothing but the program is known"],
)
def test_a_run_that_lives_or_ended_well_did_not_die(slice_, run, status):
    (run / "status.json").write_text(json.dumps({**GONE, **status}))
    slice_.job(RUNNING)
    slice_.minutes(LONG_MINUTES)
    assert not slice_.is_deleted


@pytest.mark.parametrize("name", ["lock", "status.json"])
def test_what_cannot_be_read_of_a_run_says_nothing(slice_, run, name):
    (run / name).unlink()
    slice_.job(RUNNING)
    slice_.minutes(LONG_MINUTES)
    assert not slice_.is_deleted


def test_a_lock_that_is_held_is_an_agent_that_lives(slice_, run):
    slice_.job(RUNNING)
    with (run / "lock").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        slice_.minutes(LONG_MINUTES)
    assert not slice_.is_deleted


def test_a_run_of_an_earlier_attempt_may_be_dead(slice_, run):
    slice_.job(RUNNING, replace(RUNNING, number=2))
    slice_.minutes(LONG_MINUTES)
    assert not slice_.is_deleted


def test_an_attempt_that_ended_and_was_followed_by_none(slice_):
    slice_.job(replace(RUNNING, ended_s=900.0), state=JobState.RECOVERING)
    slice_.minutes(PATIENCE_MINUTES + 1)
    assert slice_.is_deleted
    assert "its attempt has ended, and nobody began another" in slice_.said


@pytest.mark.parametrize(
    "what",
    [
        {"budget": Budget(hours=0.5)},
        {"budget": Budget(hours=9.0, usd=1.0), "usd_per_hour": 2.0},
    ],
)
def test_a_budget_is_a_deadline(slice_, what):
    first = replace(RUNNING, ended_s=100.0 + 20 * MINUTE_S)
    second = replace(RUNNING, number=2, ready_s=2000.0, started_s=2000.0 + 2 * MINUTE_S)
    slice_.job(first, second, **what)
    slice_.minutes(8)
    assert not slice_.is_deleted
    slice_.minutes(2)
    assert slice_.is_deleted
    assert "its budget is used up" in slice_.said


# --------------------------------------------------------------- teardown


@pytest.mark.parametrize(
    "what",
    [
        {"state": JobState.FAILED},
        {"cancel_requested_s": 1.0},
        {"timeouts": Timeouts(run_s=1.0)},
    ],
)
def test_on_success_a_job_that_did_not_succeed_keeps_its_slice(slice_, what):
    slice_.job(RUNNING, teardown=Teardown.ON_SUCCESS, **what)
    slice_.final(0, BADLY)
    slice_.minutes(LONG_MINUTES)
    assert not slice_.is_deleted


def test_on_success_all_workers_must_have_ended_well(slice_):
    slice_.job(RUNNING, teardown=Teardown.ON_SUCCESS)
    slice_.final(0, WELL)
    slice_.minutes(LONG_MINUTES)
    assert not slice_.is_deleted
    slice_.final(1, WELL)
    slice_.minutes(1)
    assert slice_.is_deleted


def test_a_slice_that_shall_stay_or_is_not_the_jobs_own_has_no_switch():
    outside = SimpleNamespace(
        project="demo", storage_endpoint="https://s", bucket="b", key_line="tpuctl:K"
    )
    spec = JobSpec(name="digits", run="true", teardown=Teardown.NEVER)
    record = JobRecord(JOB, spec, "me", 0.0, "us-west4-a", "v5litepod-16")
    assert switches.switch_config(outside, record, RUNNING) is None
    assert switches.slice_metadata(outside, record, RUNNING) == {"ssh-keys": "tpuctl:K"}
    always = replace(record, spec=replace(spec, teardown=Teardown.ALWAYS))
    assert switches.switch_config(outside, always, replace(RUNNING, owned=False)) is None
    assert switches.switch_config(outside, always, replace(RUNNING, worker_count=0))["workers"] == 4


# --------------------------------------------------------------- the proof


def test_the_proof_deletes_what_cannot_exist(slice_):
    slice_.job(RUNNING)
    found = deadman_switch.prove_permission(json.loads(slice_.path.read_text()))
    assert found == {"result": "armed", "text": "armed"}
    [(path, token)] = slice_.server.deletions
    assert path.startswith(f"{PARENT}tpuctl-proof-")
    assert len(path.removeprefix(PARENT)) <= 63
    assert token == "Bearer a-token"  # noqa: S105


@pytest.mark.parametrize(
    ("answer", "result", "text"),
    [
        ((403, FORBIDDEN), "refused", "may not: 403 PERMISSION_DENIED not allowed"),
        ((401, {}), "unknown", "not known: 401"),  # the metadata server gave no token in time
        ((404, {}), "unknown", "not known: 404"),  # not Cloud TPU's own word
        ((503, {}), "unknown", "not known: 503"),
    ],
)
def test_what_the_proof_says_otherwise(slice_, answer, result, text):
    slice_.server.proof = answer
    slice_.job(RUNNING)
    found = deadman_switch.prove_permission(json.loads(slice_.path.read_text()))
    assert found == {"result": result, "text": text}


def test_the_worker_is_sent_elsewhere_by_its_environment(slice_, monkeypatch):
    slice_.job(RUNNING, state=JobState.FAILED)
    config = json.loads(slice_.path.read_text())
    nowhere = "http://127.0.0.1:9"
    slice_.path.write_text(json.dumps({**config, "tpu": nowhere, "storage": nowhere}))
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU", f"{slice_.server.endpoint}/")
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", slice_.server.address)
    slice_.minutes(PATIENCE_MINUTES + 1)
    assert slice_.is_deleted


@pytest.mark.parametrize(
    ("status", "result", "said"),
    [
        (403, "refused", "may not: cannot read tpuctl/"),
        (503, "unknown", "not known: cannot read tpuctl/"),
    ],
)
@pytest.mark.parametrize("key", ["tpuctl/leases/", "tpuctl/records/", "tpuctl/jobs/"])
def test_who_cannot_read_the_bucket_is_not_armed(slice_, monkeypatch, key, status, result, said):
    slice_.job(RUNNING)
    config = json.loads(slice_.path.read_text())
    assert deadman_switch.prove_reading(config)["result"] == "armed"
    ask = deadman_switch.request

    def refused(method, base, path, *given):
        if path.startswith(f"/storage/v1/b/b/o/{quote(key, safe='')}"):
            return status, {}, b""
        return ask(method, base, path, *given)

    monkeypatch.setattr(deadman_switch, "request", refused)
    found = deadman_switch.prove_reading(config)
    assert found["result"] == result
    assert found["text"].startswith(said)


# --------------------------------------------------------------- as it is shipped


def shipped(slice_, verb: str, **environ) -> subprocess.CompletedProcess:
    argv = [sys.executable, "-W", "error", deadman_switch.__file__, verb, str(slice_.path)]
    known = {**os.environ, "TMPDIR": str(slice_.path.parent), **environ}
    return subprocess.run(argv, env=known, capture_output=True, text=True, timeout=30)


@pytest.mark.system
def test_arm_prints_what_the_proof_said_and_leaves_a_watch_that_ends_with_the_slice(slice_):
    slice_.job(RUNNING, state=JobState.FAILED)
    config = json.loads(slice_.path.read_text())
    quick = {"patience_s": 0.0, "interval_s": 0.01}
    slice_.server.deletion = (404, MISSING)  # which ends the watch
    slice_.path.write_text(json.dumps({**config, **quick}))
    done = shipped(slice_, "arm")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"result": "armed", "text": "armed"}
    while not slice_.is_deleted:
        assert shipped(slice_, "watch").returncode in (
            0,
            deadman_switch.DONE,
        )  # one that watches is enough


def test_other_workers_than_the_first_do_not_watch(slice_, monkeypatch):
    slice_.job(RUNNING)
    monkeypatch.setattr(
        deadman_switch, "metadata", {"instance/attributes/agent-worker-number": "3"}.get
    )
    assert deadman_switch.watch_at_boot(slice_.path) == 0


@pytest.mark.system
def test_the_startup_script_leaves_the_switch_and_its_config_in_the_home_of_root(slice_):
    slice_.job(RUNNING, state=JobState.FAILED)
    record = records.load(slice_.store, JOB).record
    outside = SimpleNamespace(
        project="demo", storage_endpoint=slice_.server.endpoint, bucket="b", key_line="tpuctl:K"
    )
    script = switches.slice_metadata(outside, record, RUNNING)["startup-script"]
    home = slice_.path.parent
    here = {"HOME": str(home), "PATH": os.environ["PATH"], "TMPDIR": str(home)}
    without = script.replace('python3 "$dir', ': "$dir')  # what it starts is tested above
    for _ in range(2):  # at every boot
        subprocess.run(["bash", "-c", without], env=here, check=True)
    directory = home / ".tpuctl" / "switch" / SLICE
    assert (directory / "switch.py").read_text() == switch_script.switch_program()
    assert json.loads((directory / "switch.json").read_text()) == switches.switch_config(
        outside, record, RUNNING
    )
    assert len(script) < SWITCH_BYTES
    assert directory.stat().st_mode & 0o777 == 0o700


# --------------------------------------------------------------- what is told


def test_a_proof_that_failed_is_told_with_its_price():
    said = status_text.switch_warning(FORBIDDEN_PROOF, 8.2)
    assert said == (
        "its slice cannot delete itself (may not: 403 PERMISSION_DENIED): "
        "forgotten, it costs 8.20 USD/h until somebody deletes it"
    )
    assert status_text.switch_warning(ARMED, 8.2) is None


def test_the_next_submission_is_warned_until_a_proof_succeeds(slice_):
    store = slice_.store
    assert switches.warning(store, 1.2) is None
    switches.save_proof(store, FORBIDDEN_PROOF, 5.0)
    switches.save_proof(store, SwitchProof(ProofResult.UNKNOWN, "not known: timed out"), 6.0)
    assert (
        "cannot delete themselves (may not: 403 PERMISSION_DENIED): forgotten, it costs 1.20"
        in (switches.warning(store, 1.2))
    )
    slice_.replace(switches.KEY, "[" * 200_000)
    assert switches.warning(store, 1.2) is None
    switches.save_proof(store, ARMED, 7.0)
    assert switches.load_proof(store) == ARMED
    assert switches.warning(store, 1.2) is None
