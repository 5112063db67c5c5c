"""What lies in the bucket may have been written by anybody who may write there."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tpuctl.errors import DamagedStateError
from tpuctl.jobs import client
from tpuctl.jobs.leases import lease
from tpuctl.jobs.record import record_store
from tpuctl.jobs.slices import zone_health
from tpuctl.models.job import Attempt, AttemptState, WorkerReport
from tpuctl.store import open_store
from unit.jobs.job_steps import job

JOB = replace(job(), job_id="digits-a1b2c3")
DEEP = b"[" * 200_000
RECORD = json.loads(record_store.encode(JOB))
DAMAGE = [
    {"submitted_s": "abc"},
    {"submitted_s": 1e300},
    {"submitted_s": float("nan")},
    {"submitted_s": None},
    {"submitted_s": True},
    {"ended_s": 10**400},
    {"why": 5},
    {"zone": None},
    {"usd_per_hour": "x"},
    {"usd_per_hour": float("inf")},
    {"fence": 1.5},
    {"state": "FLYING"},
    {"state": ["QUEUED"]},
    {"zones": "us-west4-a"},
    {"attempts": [7]},
    {"events": [{"time_s": 1e999, "text": "x"}]},
    {"spec": {**RECORD["spec"], "envs": ["A"]}},
    {"spec": {**RECORD["spec"], "envs": {"A": 1}}},
    {"spec": None},
    {"job_id": None},
    {"job_id": "another-a1b2c3"},
    {"schema": "1"},
]


@pytest.fixture
def store(tmp_path):
    found = open_store(str(tmp_path))
    record_store.create(found, JOB)
    return found


@pytest.mark.parametrize("damage", DAMAGE, ids=str)
def test_a_record_with_a_wrong_value_is_damaged_and_hides_no_other(store, damage):
    bad = json.dumps({**RECORD, "job_id": "bad-000000", **damage}).encode()
    store.put_if_absent("tpuctl/records/bad-000000", bad)
    told = []
    assert client.list_jobs(store, told.append) == [JOB]
    assert [type(error) for error in told] == [DamagedStateError]
    assert "bad-000000" in str(told[0])
    with pytest.raises(DamagedStateError):
        client.describe(store, "bad-000000")


@pytest.mark.parametrize("data", [DEEP, b"\xff", b"", b"null", b'{"schema": 1e999}'])
def test_what_is_no_record_at_all_is_told(store, data):
    store.put_if_absent("tpuctl/records/bad-000000", data)
    told = []
    assert client.list_jobs(store, told.append) == [JOB]
    assert len(told) == 1


@pytest.mark.parametrize("name", ["..", "../../evil", "a/b", "A-000000", "-x", "", "x" * 64])
def test_a_record_under_a_name_that_no_job_has_is_damaged(name):
    with pytest.raises(DamagedStateError, match="it is not the name of a job"):
        record_store.decode(record_store.encode(replace(JOB, job_id=name)), name)


def test_a_metric_that_is_no_number_is_kept_as_the_program_printed_it():
    printed = {"loss": float("nan"), "norm": 1e30, "acc": 0.5, "at": "warmup"}
    report = WorkerReport(0, metrics=printed)
    running = Attempt(1, "z", "n", AttemptState.RUNNING, owned=True, workers=(report,))
    found = record_store.decode(record_store.encode(replace(JOB, attempts=(running,))), JOB.job_id)
    assert found.attempts[0].workers[0].metrics == {
        "loss": "nan", "norm": "1e+30", "acc": 0.5, "at": "warmup",
    }  # fmt: skip


def test_half_a_character_is_replaced():
    whole = record_store.encode(JOB).replace(b'"waiting for a supervisor"', rb'"\ud800!"')
    assert record_store.decode(whole, JOB.job_id).why == "?!"


@pytest.mark.parametrize(
    "data",
    [
        DEEP,
        b'{"schema": 1, "holder": "", "owner": "o", "fence": 1e999}',
        b'{"schema": 1, "holder": "", "owner": "o", "fence": "1"}',
        b'{"schema": 1, "holder": null, "owner": "o", "fence": 1}',
        b'{"schema": 1, "holder": "", "fence": 1}',
    ],
)
def test_a_damaged_lease_is_passed_over(store, data):
    whole = lease.offer(store, JOB.job_id, JOB.owner)
    store.put_if_absent("tpuctl/leases/bad-000000", data)
    told = []
    assert lease.list_leases(store, {}, told.append) == [whole]
    assert [type(error) for error in told] == [DamagedStateError]


def test_a_lease_under_a_name_that_no_job_has_is_passed_over(tmp_path):
    odd = b'{"schema": 1, "holder": "", "owner": "o", "fence": 1}'
    found = open_store(str(tmp_path))
    found.put_if_absent("tpuctl/leases/a/b", odd)
    told = []
    assert lease.list_leases(found, {}, told.append) == []
    assert len(told) == 1


@pytest.mark.parametrize(
    "damage", [{"tries": 1e999}, {"out_s": "x"}, {"stockout_score": float("nan")}, {"since_s": [1]}]
)
def test_damaged_weather_says_nothing(store, damage):
    zone = "us-west4-a"
    whole = {"schema": 1, "out_s": 1.0, "since_s": 1.0, "tries": 1, "stockout_score": 1.0}
    data = json.dumps({**whole, **damage}).encode()
    store.put_if_absent(f"tpuctl/stockouts/{zone}/{JOB.accelerator_type}", data)
    found = zone_health.read(
        SimpleNamespace(store=store, quota=None, addresses=None, check_limit=None),
        replace(JOB, zones=(zone,)),
        2.0,
    )
    assert found[zone, JOB.accelerator_type] == zone_health.NO_STOCKOUT


@pytest.mark.parametrize("body", [DEEP, b"{}", b'{"pid": "7"}', b'{"since_s": 1e999}', b"[1]"])
def test_a_damaged_heartbeat_says_who_holds_and_no_more(store, tmp_path, body):
    taken = lease.take(store, lease.offer(store, JOB.job_id, JOB.owner), "seat-1")
    store.put_if_absent(f"{lease.HEARTBEATS}{taken.holder}", body)
    found = client.supervisor_of(store, tmp_path, "lab", JOB.job_id)
    assert found == client.SupervisorInfo("seat-1")
