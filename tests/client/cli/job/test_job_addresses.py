"""A job in a brand-new project: it starts once its workers do without external addresses.

The rules of a job and the real API take turns here, without a supervisor and without workers.
"""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from client.cli.job.job_records import T, job
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.jobs import client
from tpuctl.jobs.interfaces import Backends
from tpuctl.jobs.policy.actions import DeleteSlice, RecordStockout, RequestSlice
from tpuctl.jobs.policy.reconcile import reconcile
from tpuctl.jobs.slices import slice_api, zone_health
from tpuctl.models.job import JobRecord, JobState, Resources
from tpuctl.models.slice_options import SliceOptions

NEW_PROJECT = {"workers": "none", "quota": {"IN_USE_ADDRESSES": 8}}
WAITING = (JobState.QUEUED, JobState.WAITING)
HERE, FAR = "us-west4-a", "us-west1-c"


@pytest.fixture
def behave(cloud) -> Callable[..., None]:
    """Another scenario from now on."""

    def change(**settings: object) -> None:
        cloud.control._send("PATCH", "/scenario", json.dumps(settings).encode())

    change(**NEW_PROJECT)
    return change


@pytest.fixture
def live(cloud) -> Callable[..., JobRecord]:
    """`live(record, turns)`: what becomes of a job in so many seconds, or until it has a slice."""
    runtime = Runtime(environ={"TPUCTL_HOME": str(cloud.home)})
    backends, moments = runtime.outside, iter(range(int(T), int(T) + 10_000))

    def take_turns(record: JobRecord, turns: int = 20) -> JobRecord:
        for now_s in (float(next(moments)) for _ in range(turns)):
            seen = slice_api.observe_slices(backends.tpu, record, lambda now_s=now_s: now_s)
            health = zone_health.read(backends, record, now_s)
            step = reconcile(record, replace(seen, zone_health=health))
            record = step.record
            if record.is_settled or record.state not in (*WAITING, JobState.FAILED):
                break
            for action in step.actions:
                act(backends, record, action, now_s)
            cloud.control.advance(1.0)
        return record

    yield take_turns
    assert list(backends.store.list(zone_health.STOCKOUTS)) == []
    runtime.close()


def act(backends: Backends, record: JobRecord, action: object, now_s: float) -> None:
    if isinstance(action, RequestSlice):
        assert slice_api.request_slice(backends, record, action.attempt) is None
    elif isinstance(action, DeleteSlice):
        slice_api.delete_slice(backends.tpu, action.zone, action.queued_resource)
    elif isinstance(action, RecordStockout):
        zone_health.record_stockout(backends.store, record, action, now_s)


def sixteen_workers(name="digits-1", *, internal_ips=False, zones=(HERE,)) -> JobRecord:
    options = SliceOptions(internal_ips=internal_ips)
    record = job(name, state=JobState.QUEUED, accelerator_type="v5litepod-64", zones=zones)
    wanted = Resources("v5litepod-64", options=options)
    return replace(record, spec=replace(record.spec, resources=wanted), zone=zones[0])


def test_sixteen_workers_start_in_a_new_project_once_they_have_internal_addresses(behave, live):
    failed = live(sixteen_workers())
    assert (failed.state, len(failed.attempts), failed.is_settled) == ("FAILED", 1, True)
    assert (failed.attempt.outcome, failed.attempt.refusal) == ("refused", "external_address_limit")
    error = client.error_of(failed)
    assert error is not None
    assert (error.exit_code, error.reason) == (30, "external_address_limit")
    assert "Quota 'IN_USE_ADDRESSES' exceeded. Limit: 8.0 in region us-west4." in str(error)
    assert "internal_ips: true in a job file" in str(error)
    started = live(sixteen_workers("digits-2", internal_ips=True))
    assert (started.state, started.attempt.worker_count) == ("PREPARING", 16)


def test_another_region_is_tried_at_once_where_one_has_too_few_addresses(behave, live):
    behave(quota={"IN_USE_ADDRESSES": {"us-west4": 8, "us-west1": 100}})
    started = live(sixteen_workers(zones=(HERE, FAR)))
    assert [attempt.zone for attempt in started.attempts] == [HERE, FAR]
    assert started.state == "PREPARING"


def test_a_job_waits_without_asking_while_others_hold_the_addresses(tpuctl, behave, live):
    behave(quota={"IN_USE_ADDRESSES": 16})
    assert tpuctl("node", "create", "n1", "-t", "v5litepod-4").code == 0
    waits = live(sixteen_workers(), turns=4)
    assert (waits.state, waits.attempts, waits.why) == (
        "WAITING",
        (),
        "us-west4: 15 of 16 external addresses left, 16 wanted",
    )
    assert tpuctl("node", "delete", "n1", "--yes").code == 0
    assert live(waits).state == "PREPARING"


@pytest.mark.parametrize(
    ("scenario", "reason", "zones"),
    [
        ({"external_ips": "disabled"}, "external_address_policy", [HERE]),
        ({"networks": []}, "no_such_network", [HERE]),
        ({"subnets": {HERE: 8}}, "subnet_full", [HERE, FAR]),
    ],
)
def test_what_the_network_refuses_is_the_cause_at_once(behave, live, scenario, reason, zones):
    behave(quota={"IN_USE_ADDRESSES": 100}, **scenario)
    record = live(sixteen_workers(zones=(HERE, FAR)))
    assert [attempt.zone for attempt in record.attempts] == zones
    assert record.attempts[0].refusal == reason
    assert record.state == ("FAILED" if len(zones) == 1 else "PREPARING")
