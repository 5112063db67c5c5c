"""`tpuctl job list`: which jobs, in what order, and what their columns say."""

import json

import pytest

from client.cli.job.job_records import T, attempt, job, put, store_of
from tpuctl.jobs.leases import lease
from tpuctl.models.job import AttemptOutcome, AttemptState, JobState
from tpuctl.operations.jobs import queries

KEYS = [
    "id", "state", "attempts", "step", "accelerator_type", "zone", "submitted", "usd_per_hour",
    "why", "owner", "usd_so_far",
]  # fmt: skip


@pytest.fixture
def store(cloud):
    return store_of(cloud.home)


def rows(tpuctl, *argv: str) -> dict[str, dict]:
    return {row["id"]: row for row in tpuctl("job", "list", *argv, "-o", "json").json}


def test_json_keys_and_their_order_are_public(tpuctl, store):
    put(store, job(owner="ada@lab"))
    row = rows(tpuctl)["digits-1"]
    assert list(row) == KEYS
    assert row["owner"] == "ada@lab"


def test_a_pipe_gets_the_same_columns_in_the_same_order(tpuctl, store):
    put(store, job(attempts=(attempt(),), owner="ada@lab"))
    assert tpuctl("job", "list").out == (
        "ID\tSTATE\tSTEP\tTYPE\tZONE\tAGE\tUSD/H\tUSD\tWHY\n"
        "digits-1\tFAILED\t100\tv5litepod-16\tus-west4-a\t2027-01-15T08:00:00Z\t-\t9.71\t"
        "it is FAILED\n"
    )


def test_a_step_that_nobody_reported_is_a_dash_for_people(tpuctl, store):
    begun = attempt(1, state=AttemptState.PREPARING, outcome=None, ended_s=None, last_step=0)
    put(store, job(state=JobState.PREPARING, attempts=(begun,)))
    assert tpuctl("job", "list", "--no-headers").out.split("\t")[2] == "-"
    assert rows(tpuctl)["digits-1"]["step"] == 0


def test_the_newest_comes_first(tpuctl, store):
    for number in (2, 1, 3):
        put(store, job(f"digits-{number}", submitted_s=T + number))
    assert list(rows(tpuctl)) == ["digits-3", "digits-2", "digits-1"]


@pytest.mark.parametrize(
    ("second", "step"),
    [
        ({"last_step": 0, "resume_step": 0}, 100),
        ({"last_step": 0, "resume_step": 80}, 80),
        ({"last_step": 130, "resume_step": 80}, 130),
    ],
    ids=["not begun", "resumed", "went on"],
)
def test_the_step_of_a_resumed_job_is_the_last_one_known(tpuctl, store, second, step):
    newest = attempt(2, state=AttemptState.PREPARING, outcome=None, ended_s=None, **second)
    put(store, job(state=JobState.RECOVERING, attempts=(attempt(), newest)))
    assert rows(tpuctl)["digits-1"]["step"] == step


def test_jobs_that_ended_long_ago_are_left_out_and_counted(tpuctl, store, monkeypatch):
    monkeypatch.setattr(queries, "ENDED_SHOWN", 2)
    put(store, job("old-1", state=JobState.RUNNING, submitted_s=T - 1000))
    for number in range(4):
        put(store, job(f"done-{number}", JobState.SUCCEEDED, submitted_s=T + number))
    result = tpuctl("job", "list")
    assert [row[0] for row in result.rows] == ["done-3", "done-2", "old-1"]
    assert "2 jobs that ended earlier: tpuctl job list --all" in result.err
    assert len(tpuctl("job", "list", "--all").rows) == 5


def test_programs_are_told_of_every_job(tpuctl, store, monkeypatch):
    monkeypatch.setattr(queries, "ENDED_SHOWN", 1)
    for number in range(3):
        put(store, job(f"done-{number}", JobState.SUCCEEDED))
    assert len(rows(tpuctl)) == len(tpuctl("job", "list", "-o", "name").out.split()) == 3


def test_money_is_what_ready_slices_cost_by_the_price_list(tpuctl, store):
    half = attempt(
        2, ready_s=T, ended_s=T + 1800, deleted_s=T + 1800, outcome=AttemptOutcome.FAILED
    )
    put(store, job(attempts=(attempt(), half)))
    assert rows(tpuctl)["digits-1"]["usd_so_far"] == pytest.approx(1.5 * 9.712)


def test_two_attempts_on_one_slice_share_its_price(tpuctl, store):
    name = "digits-1-a1"
    first = attempt(ready_s=T, ended_s=T + 600, deleted_s=T + 3600, outcome=AttemptOutcome.FAILED)
    again = attempt(
        2, node=name, queued_resource=name, ready_s=T + 600, ended_s=T + 3500,
        deleted_s=T + 3600, outcome=AttemptOutcome.FAILED,
    )  # fmt: skip
    put(store, job(attempts=(first, again)))
    assert rows(tpuctl)["digits-1"]["usd_so_far"] == pytest.approx(9.712)


def test_a_record_that_cannot_be_read_is_a_warning_beside_the_others(tpuctl, store):
    put(store, job())
    store.put_if_absent("tpuctl/records/torn-2", b"{")
    result = tpuctl("job", "list", "-o", "json")
    assert (result.code, [row["id"] for row in result.json]) == (0, ["digits-1"])
    assert "warning: the record of job 'torn-2' cannot be read" in result.err


def test_a_job_of_somebody_else_is_looked_after_with_accept(tpuctl, store):
    put(store, job(state=JobState.QUEUED, owner="ada@lab"))
    assert tpuctl("job", "list").err == (
        "warning: no supervisor looks after digits-1; run: tpuctl supervisor run --accept ada@lab\n"
    )


def test_states_and_owners_choose(tpuctl, store):
    put(store, job("a-1", state=JobState.RUNNING, owner="ada@lab"))
    put(store, job("b-1", state=JobState.WAITING, owner="ada@home"))
    put(store, job("c-1", JobState.FAILED, owner="bob@lab"))
    assert set(rows(tpuctl, "--state", "running", "--state", "FAILED")) == {"a-1", "c-1"}
    assert set(rows(tpuctl, "--owner", "ada")) == {"a-1", "b-1"}
    assert set(rows(tpuctl, "--owner", "ada@lab", "--state", "RUNNING")) == {"a-1"}
    assert rows(tpuctl, "--owner", "lab") == {}
    result = tpuctl("job", "list", "--state", "done")
    assert (result.code, result.err) == (
        2,
        "error: 'DONE' is not a state of jobs\n"
        "hint: --state is one of QUEUED, WAITING, PREPARING, RUNNING, RECOVERING, SUCCEEDED, "
        "FAILED, CANCELLED\n",
    )


def test_the_step_is_that_of_the_supervisors_heartbeat_where_it_is_newer(tpuctl, store):
    running = {"state": AttemptState.RUNNING, "ended_s": None, "outcome": None}
    for name in ("digits-1", "again-1", "done-1"):
        state = JobState.SUCCEEDED if name == "done-1" else JobState.RUNNING
        put(store, job(name, state, attempts=(attempt(2, **running),)))
    steps = {
        "digits-1": {"attempt": 2, "step": 130},
        "again-1": {"attempt": 1, "step": 130},
        "done-1": {"attempt": 2, "step": 130},
    }
    body = json.dumps({"host": "lab", "steps": steps}).encode()
    store.put_if_absent(f"{lease.HEARTBEATS}lab-1", body)
    store.put_if_absent(f"{lease.HEARTBEATS}torn-1", b'{"steps": {"digits-1": 7}}')
    found = rows(tpuctl)
    assert {name: row["step"] for name, row in found.items()} == {
        "digits-1": 130, "again-1": 100, "done-1": 100,
    }  # fmt: skip
    assert tpuctl("job", "describe", "digits-1", "-o", "json").json["step"] == 130
