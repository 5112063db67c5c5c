"""`tpuctl job describe`: why, by whom, what failed first, what it cost, and where things lie."""

import io
import json

import pytest

from client.cli.job.job_records import SPOT, T, attempt, job, put, store_of
from tpuctl.cli.app import main
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.jobs.leases import lease
from tpuctl.models.job import (
    AttemptOutcome,
    AttemptState,
    Budget,
    JobEvent,
    JobSpec,
    JobState,
    Phase,
    ProofResult,
    SwitchProof,
    WorkerReport,
)
from tpuctl.models.search import Candidate, Place, Search

KEYS = [
    "id", "state", "attempts", "step", "accelerator_type", "zone", "submitted", "usd_per_hour",
    "why", "owner", "usd_so_far", "ended", "attempt_list", "name", "command", "supervisor",
    "cancel_requested", "zones", "provisioning", "slices", "first_worker", "workers", "switch",
    "slice_hours", "price_as_of", "budget", "secrets", "logs", "stacks", "events", "findings",
    "goodput",
    "service",
    "replica",
    "notify", "notifications",
]  # fmt: skip
ATTEMPT_KEYS = [
    "number", "node", "outcome", "resume_step", "last_step", "reason", "state", "zone", "nodes",
    "node_ids", "queued_resource", "accelerator_type", "other_requests", "requested", "ready",
    "started", "ended", "deleted", "first_worker", "workers",
]  # fmt: skip
REQUEST_KEYS = [
    "queued_resource", "zone", "accelerator_type", "reason", "billed_s", "outcome", "requested",
    "active", "withdrawn", "deleted",
]  # fmt: skip
WORKER_KEYS = [
    "worker", "verdict", "phase", "stage", "exit_status", "signal", "step", "last_lines",
    "traceback",
]  # fmt: skip
LINES = ("Traceback (most recent call last):", "ValueError: shapes (128,784) (785,10)")
SPEC = JobSpec(
    "digits", "python3 train.py", resources=SPOT, budget=Budget(hours=6, usd=30),
    secrets={"HF_TOKEN": "env:HF_TOKEN"},
)  # fmt: skip


def ended(worker_id: int, **how) -> WorkerReport:
    return WorkerReport(worker_id, phase=Phase.ENDED, stage="run", closed=True, **how)


NOT_ARMED = SwitchProof(ProofResult.REFUSED, "may not (403)")
FAILED = attempt(
    2, outcome=AttemptOutcome.FAILED, reason="worker 1: the program ended with status 3",
    first_worker=1, resume_step=100, last_step=130,
    workers=(
        ended(0, signal=15, stopped=True, switch=NOT_ARMED),
        ended(1, exit_status=3, last_lines=LINES, traceback="ValueError"),
    ),
)  # fmt: skip


@pytest.fixture
def store(cloud):
    return store_of(cloud.home)


@pytest.fixture
def failed(store):
    """A job that was preempted once, and then failed on its second worker."""
    events = (JobEvent(T, "requesting v5litepod-16 in us-west4-a"), JobEvent(T + 60, "preparing"))
    return put(
        store, job(spec=SPEC, usd_per_hour=9.712, attempts=(attempt(), FAILED), events=events)
    )


def described(tpuctl, job_id: str = "digits-1") -> dict:
    result = tpuctl("job", "describe", job_id, "-o", "json")
    assert result.code == 0
    return result.json


def test_json_keys_are_public(tpuctl, failed):
    found = described(tpuctl)
    assert list(found) == KEYS
    assert [list(each) for each in found["attempt_list"]] == [ATTEMPT_KEYS] * 2
    assert list(found["workers"][0]) == WORKER_KEYS
    assert list(found["first_worker"]) == ["attempt", *WORKER_KEYS]


def test_the_first_worker_that_failed_is_named_with_its_last_lines(tpuctl, failed):
    found = described(tpuctl)
    first = found["first_worker"]
    assert (first["attempt"], first["worker"], first["verdict"]) == (
        2,
        1,
        "the program ended with status 3",
    )
    assert first["last_lines"] == list(LINES)
    verdicts = [each["verdict"] for each in found["workers"]]
    assert verdicts == [
        "the program was killed by signal 15 (stopped)",
        "the program ended with status 3",
    ]


def test_it_is_still_named_while_the_next_attempt_waits_for_a_slice(tpuctl, store):
    waiting = attempt(
        3, state=AttemptState.WAITING, outcome=None, ready_s=None, ended_s=None, deleted_s=None
    )
    put(store, job(state=JobState.RECOVERING, attempts=(attempt(), FAILED, waiting)))
    assert described(tpuctl)["first_worker"]["attempt"] == 2


def test_cost_and_budget_are_counted_from_the_hours_of_slices(tpuctl, failed):
    found = described(tpuctl)
    assert found["slice_hours"] == pytest.approx(2 * 3600 / 3600, abs=0.02)
    assert found["usd_so_far"] == pytest.approx(found["slice_hours"] * 9.712, rel=1e-3)
    assert found["price_as_of"]
    assert found["budget"] == {
        "hours": 6, "usd": 30, "hours_left": 4.0, "usd_left": pytest.approx(30 - 2 * 9.712)
    }  # fmt: skip


def test_requests_that_lost_are_shown_with_what_they_cost(tpuctl, store):
    lost = Candidate(
        "digits-1-a1c2", "us-west1-c", "v6e-16", requested_s=T, accepted_s=T, active_s=T + 60,
        withdrawn_s=T + 60, deleted_s=T + 96, reason="v5litepod-16 in us-west4-a was granted",
    )  # fmt: skip
    places = (Place("us-west4-a", "v5litepod-16"), Place("us-west1-c", "v6e-16"))
    spec = JobSpec("digits", "true", resources=SPOT, search=Search(2))
    put(store, job(spec=spec, places=places, attempts=(attempt(others=(lost,)),)))
    found = described(tpuctl)
    (other,) = found["attempt_list"][0]["other_requests"]
    assert list(other) == REQUEST_KEYS
    assert (other["outcome"], other["billed_s"]) == ("withdrawn", 36.0)
    text = tpuctl("job", "describe", "digits-1").out
    assert "zones      v5litepod-16 in us-west4-a, v6e-16 in us-west1-c; up to 2 at once\n" in text
    assert (
        "other requests of attempt 1\n"
        "  digits-1-a1c2  us-west1-c  v6e-16  36 s billed  "
        "withdrawn: v5litepod-16 in us-west4-a was granted\n"
    ) in text
    hours = 1 + (90 - 60 + 36 + 0) / 3600
    assert found["slice_hours"] == pytest.approx(hours, abs=0.01)


def test_secrets_are_names(tpuctl, failed):
    found = described(tpuctl)
    assert found["secrets"] == ["HF_TOKEN"]
    assert "env:HF_TOKEN" not in json.dumps(found)


def test_it_says_where_logs_and_stacks_lie(tpuctl, store, failed):
    store.put_if_absent("tpuctl/jobs/digits-1/stacks/a2/w0", b"Thread 0x1")
    found = described(tpuctl)
    assert found["logs"] == "gs://local-bucket/tpuctl/jobs/digits-1/logs/"
    assert found["stacks"] == ["gs://local-bucket/tpuctl/jobs/digits-1/stacks/a2/w0"]


def test_a_run_that_hung_leads_to_its_stacks_and_blames_no_signal_of_ours(tpuctl, store):
    killed = {"signal": 6, "stopped": True}
    hung = attempt(
        outcome=AttemptOutcome.HUNG,
        reason="no line and no step of any worker for 60 s",
        first_worker=1,
        workers=(ended(0, **killed), ended(1, **killed, last_lines=("step=12",))),
    )  # fmt: skip
    put(store, job(attempts=(hung,), why=hung.reason))
    store.put_if_absent("tpuctl/jobs/digits-1/stacks/a1/w0", b"Thread 0x1")
    screen = tpuctl("job", "describe", "digits-1").out
    assert "stacks     tpuctl job bundle digits-1\n" in screen
    assert "gs://local-bucket/tpuctl/jobs/digits-1/stacks/\n" in screen
    assert (
        "attempt 1 hung, worker 1 was the first to fall silent; "
        "every stack: tpuctl job bundle digits-1\n  step=12\n"
    ) in screen
    assert "signal" not in screen
    assert tpuctl("job", "wait", "digits-1").err.splitlines()[-1] == (
        "hint: run: tpuctl job bundle digits-1"
    )


def test_it_says_who_looks_after_it_or_that_nobody_does(tpuctl, cloud, store):
    put(store, job(state=JobState.RUNNING))
    result = tpuctl("job", "describe", "digits-1")
    assert "supervisor  nobody: run: tpuctl supervisor run" in result.out
    held = lease.load_lease(store, "digits-1")
    lease.take(store, held, "seat-1")
    body = {"host": "lab", "pid": 42, "owner": "ada@lab", "since_s": T}
    store.put_if_absent("tpuctl/supervisors/seat-1", json.dumps(body).encode())
    beaten_s = store.head("tpuctl/supervisors/seat-1").updated_s
    out = io.StringIO()
    at_once = Runtime(
        out=out, err=io.StringIO(), environ={"TPUCTL_HOME": str(cloud.home)}, now=lambda: beaten_s
    )
    assert main(("job", "describe", "digits-1", "-o", "json"), at_once) == 0
    assert json.loads(out.getvalue())["supervisor"] == {
        "host": "lab", "pid": 42, "owner": "ada@lab", "since": "2027-01-15T08:00:00Z"
    }  # fmt: skip


def test_a_pipe_gets_the_screen_in_plain_words(tpuctl, failed):
    out = tpuctl("job", "describe", "digits-1").out
    assert out.startswith("digits-1  FAILED\nwhy        it is FAILED\n")
    assert (
        "\nworker 1, the first to go wrong in attempt 2: the program ended with status 3\n"
        "  Traceback (most recent call last):\n"
        "  ValueError: shapes (128,784) (785,10)\n"
        "\nattempts\n"
        "  1  preempted  59 m  step 0-100    digits-1-a1 (id 4712): "
        "node digits-1-a1 is PREEMPTED\n"
    ) in out
    assert (
        "\nworkers of attempt 2\n"
        "  0  the program was killed by signal 15 (stopped)\n"
        "  1  the program ended with status 3  <- the first\n"
    ) in out
    assert out.endswith("\nevents\n  2027-01-15T08:00:00Z  requesting v5litepod-16 in us-west4-a\n"
                        "  2027-01-15T08:01:00Z  preparing\n")  # fmt: skip


class Terminal(io.StringIO):
    """A stream that a person reads."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns", [80, 120])
def test_no_line_is_wider_than_the_terminal(cloud, failed, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()
    runtime = Runtime(out=out, err=io.StringIO(), environ={"TPUCTL_HOME": str(cloud.home)})
    assert main(("job", "describe", "digits-1"), runtime) == 0
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= columns + len("\x1b[1m\x1b[0m")
    for said in ("digits-1-a2", "status 3", "tpuctl job logs digits-1", "ValueError"):
        assert said in text


def test_a_line_of_a_program_cannot_move_the_terminal(tpuctl, store):
    evil = ended(1, exit_status=3, last_lines=("\x1b[2Jgone\r",))
    put(
        store,
        job(attempts=(attempt(first_worker=1, workers=(evil,), outcome=AttemptOutcome.FAILED),)),
    )
    assert "\x1b" not in tpuctl("job", "describe", "digits-1").out
