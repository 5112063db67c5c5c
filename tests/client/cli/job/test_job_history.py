"""`tpuctl history`: who ran what here, and how it ended."""

import pytest

from client.cli.job.job_records import T, attempt, job, put, store_of
from tpuctl.cli.history import LIMIT
from tpuctl.models.job import JobState

KEYS = [
    "id", "submitted", "owner", "name", "command", "accelerator_type", "zone", "duration_s",
    "attempts", "outcome", "slice_hours", "usd", "queued_resources", "node_ids",
]  # fmt: skip


@pytest.fixture
def store(cloud):
    return store_of(cloud.home)


def ids(tpuctl, *argv: str) -> list[str]:
    return tpuctl("history", *argv, "-o", "name").out.split()


def test_a_job_with_its_owner_outcome_cost_and_ids(tpuctl, store):
    put(store, job(owner="ada@lab", attempts=(attempt(), attempt(2))))
    (row,) = tpuctl("history", "-o", "json").json
    assert list(row) == KEYS
    assert row == {
        "id": "digits-1", "submitted": "2027-01-15T08:00:00Z", "owner": "ada@lab",
        "name": "digits", "command": "python3 train.py", "accelerator_type": "v5litepod-16",
        "zone": "us-west4-a", "duration_s": 7200, "attempts": 2, "outcome": "FAILED",
        "slice_hours": 2, "usd": pytest.approx(2 * 9.712),
        "queued_resources": ["digits-1-a1", "digits-1-a2"], "node_ids": ["4712", "4713"],
    }  # fmt: skip


def test_the_newest_first_and_only_as_many_as_asked_for(tpuctl, store):
    for number in (1, 3, 2):
        put(store, job(f"digits-{number}", submitted_s=T + number))
    assert ids(tpuctl) == ["digits-3", "digits-2", "digits-1"]
    result = tpuctl("history", "--limit", "2", "-o", "name")
    assert result.out.split() == ["digits-3", "digits-2"]
    assert result.err == "1 older ones: tpuctl history --limit 3\n"


@pytest.mark.parametrize("owner", ["ada@lab", "ada"])
def test_one_persons_jobs(tpuctl, store, owner):
    put(store, job(owner="ada@lab"))
    put(store, job("hers-2", owner="grace@lab"))
    assert ids(tpuctl, "--owner", owner) == ["digits-1"]
    assert ids(tpuctl, "--owner", "nobody") == []


def test_open_jobs_are_part_of_it(tpuctl, store):
    put(store, job(state=JobState.WAITING))
    (row,) = tpuctl("history", "-o", "json").json
    assert (row["outcome"], row["slice_hours"], row["usd"]) == ("WAITING", 0, 0)


def test_a_bucket_without_jobs_has_no_history(tpuctl):
    assert tpuctl("history").out == ""
    assert tpuctl("history", "-o", "json").json == []
    assert LIMIT == 50


@pytest.mark.parametrize("limit", ["-1", "x"])
def test_a_limit_is_a_number_of_jobs(tpuctl, limit):
    assert tpuctl("history", "--limit", limit).code == 2
