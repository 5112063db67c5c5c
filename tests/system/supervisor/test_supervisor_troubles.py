"""What a supervisor does when its bucket is gone or refuses, and about what it finds there."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace

import pytest
from clouds import MATRIX
from unit.jobs.jobs_world import ZONE

from tpuctl import config
from tpuctl.config import Config, Context
from tpuctl.errors import PermissionDeniedError, TpuctlError, TransientError
from tpuctl.jobs.interfaces import Clocks
from tpuctl.jobs.leases import lease
from tpuctl.jobs.leases.heartbeat import HEARTBEATS, LeaseTerms, unsupervised_job_ids
from tpuctl.jobs.leases.supervisor_scope import SupervisorScope
from tpuctl.jobs.record import record_store
from tpuctl.jobs.supervisor import supervisor
from tpuctl.store import Store

HASTE = 400
FAST = Clocks(
    time.time, lambda: time.monotonic() * HASTE, lambda wanted_s: asyncio.sleep(wanted_s / HASTE)
)
"""A clock on which ten minutes are a second and a half."""
PATIENT = LeaseTerms(renew_s=5.0, hold_s=1000.0)
"""A turn of this machine's scheduler is a minute on that clock."""
AWAY = TransientError("gs://b: no answer")


@dataclass
class Bucket:
    """A store that raises `errors`, one a call, from calls about keys that start with `about`."""

    store: Store
    about: str = ""
    errors: list[TpuctlError] = field(default_factory=list)
    away: bool = False

    def __getattr__(self, name):
        def call(key, *rest, **options):
            if self.away:
                raise AWAY
            if self.errors and name == "put_if_generation" and key.startswith(self.about):
                raise self.errors.pop()
            return getattr(self.store, name)(key, *rest, **options)

        return call


async def supervise(
    world, bucket, said=lambda _line: None, clocks=FAST, idle_exit_s: float = 40.0
) -> None:
    await supervisor.run(
        replace(world.outside, store=bucket), SupervisorScope(("me",), idle_exit_s, terms=PATIENT),
        home=world.home, say=said, clocks=clocks,
    )  # fmt: skip


def test_a_supervisor_with_nothing_in_care_ends_when_its_bucket_is_gone(world):
    with pytest.raises(
        TransientError, match="the supervisor ends: it could not reach the bucket for 6. s"
    ) as caught:
        asyncio.run(supervise(world, Bucket(world.store, away=True)))
    assert "run: tpuctl supervisor run" in caught.value.hint


def test_a_job_in_care_is_held_on_to_for_ten_minutes(world):
    bucket = Bucket(world.store)
    world.submit("true")
    world.tpu.away = True

    def said(line: str) -> None:
        bucket.away = bucket.away or line.endswith("supervised here")

    with pytest.raises(TransientError, match=r"could not reach the bucket for [678][0-9][0-9] s"):
        asyncio.run(supervise(world, bucket, said))


def test_a_refusal_is_written_down_and_tried_again(world):
    job = world.submit("true")
    record_store.request_cancel(world.store, job.job_id, 1.0)
    refusal = PermissionDeniedError("403: not now")
    asyncio.run(supervise(world, Bucket(world.store, "tpuctl/records/", [refusal])))
    found = world.record(job)
    assert (found.state, found.fence, found.why) == ("CANCELLED", 2, "cancelled before it began")
    assert found.events[0].text == (
        "its supervisor has trouble: 403: not now; it is tried again every 30 s"
    )


def test_a_bug_stops_no_job_for_ever_and_is_told_at_the_end(world):
    job = world.submit("true")
    record_store.request_cancel(world.store, job.job_id, 1.0)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(supervise(world, Bucket(world.store, "tpuctl/records/", [ZeroDivisionError()])))
    assert world.record(job).is_settled


def test_a_refused_heartbeat_ends_nothing(world):
    said = []
    refusal = PermissionDeniedError("403: not now")
    bucket = Bucket(world.store, "tpuctl/supervisors/", [refusal])
    job = world.submit("true")
    record_store.request_cancel(world.store, job.job_id, 1.0)
    asyncio.run(supervise(world, bucket, said.append))
    assert said[0] == "heartbeat: 403: not now"
    assert world.record(job).is_settled


def test_a_lease_whose_job_was_never_written_is_withdrawn(world):
    lease.offer(world.store, "ghost-000000", "me")
    said = []
    asyncio.run(supervise(world, world.store, said.append))
    assert lease.list_leases(world.store, {}) == []
    assert said == ["ghost-000000: its submission was interrupted"]


def test_a_slow_submitter_offers_its_lease_again(world):
    offered = lease.offer(world.store, "slow-000000", "me")
    lease.renew_offer(world.store, "slow-000000", "me")
    assert lease.withdraw(world.store, offered)
    assert not lease.withdraw(world.store, offered)
    lease.renew_offer(world.store, "slow-000000", "me")
    assert [each.job_id for each in lease.list_leases(world.store, {})] == ["slow-000000"]


def test_a_record_of_a_newer_tpuctl_is_left_to_it(world):
    world.store.put_if_absent("tpuctl/records/later-000000", b'{"schema": 5}')
    lease.offer(world.store, "later-000000", "me")
    said = []
    asyncio.run(supervise(world, world.store, said.append))
    assert said == ["later-000000: given up: job 'later-000000' was written by a newer tpuctl"]
    assert [each.holder for each in lease.list_leases(world.store, {})] == [""]


def test_a_job_of_a_silent_supervisor_elsewhere_is_waited_for_and_taken_over(world):
    job = world.submit("true")
    record_store.request_cancel(world.store, job.job_id, 1.0)
    (offered,) = lease.list_leases(world.store, {})
    lease.take(world.store, offered, "elsewhere-1")
    world.store.put_if_absent(f"{HEARTBEATS}elsewhere-1", b"{}")  # its last one
    began_s = FAST.monotonic()
    asyncio.run(supervise(world, world.store, idle_exit_s=3.0))
    assert FAST.monotonic() - began_s >= PATIENT.dead_after_s
    assert (world.record(job).state, world.record(job).fence) == ("CANCELLED", 2)


def test_a_supervisor_that_was_stopped_for_a_while_keeps_its_jobs(world):
    job = world.submit("true")
    stalled_s = 0.0

    async def stalls(wanted_s: float) -> None:
        nonlocal stalled_s
        await asyncio.sleep(wanted_s)
        stalled_s += 1.0

    clocks = Clocks(time.time, lambda: time.monotonic() + stalled_s, stalls)
    asyncio.run(supervise(world, world.store, clocks=clocks, idle_exit_s=0.2))
    assert (world.record(job).state, world.record(job).fence) == ("SUCCEEDED", 1)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"{", "cannot be read: Expecting"),
        (b"[]", "cannot be read: a list is not of type object"),
        (b'{"schema": 1}', "cannot be read: holder is missing"),
        (b'{"schema": 2}', "was written by a newer tpuctl"),
    ],
)
def test_a_lease_that_cannot_be_read_stops_nobody_else(world, body, why):
    world.store.put_if_absent("tpuctl/leases/bad-000000", body)
    job = world.submit("true")
    record_store.request_cancel(world.store, job.job_id, 1.0)
    said = []
    asyncio.run(supervise(world, world.store, said.append))
    assert world.record(job).is_settled
    (passed,) = [line for line in said if line.startswith("passed over")]
    assert passed.startswith(f"passed over: the lease of 'bad-000000' {why}")
    assert unsupervised_job_ids(world.store, None) == []


def test_a_lease_that_may_not_be_taken_stops_nobody_else(world):
    jobs = [world.submit("true"), world.submit("true")]
    for job in jobs:
        record_store.request_cancel(world.store, job.job_id, 1.0)
    refusal = PermissionDeniedError("403: not now")
    asyncio.run(supervise(world, Bucket(world.store, "tpuctl/leases/", [refusal])))
    assert [world.record(job).state for job in jobs] == ["CANCELLED", "CANCELLED"]


@pytest.fixture
def silence():
    """A service that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)
        yield server


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), pytest.param(signal.SIGHUP, 143, marks=MATRIX), (signal.SIGINT, 130)],
)
def test_a_supervisor_of_a_silent_service_ends_when_told(tmp_path, silence, number, code):
    endpoint = f"127.0.0.1:{silence.getsockname()[1]}"
    context = Context(
        *("silent", "p", ZONE, "b", endpoint),
        storage_endpoint=f"http://{endpoint}",
        credentials=config.ANONYMOUS,
    )
    config.save(tmp_path, Config("silent", {"silent": context}))
    environ = {**os.environ, "TPUCTL_HOME": str(tmp_path)}
    argv = [sys.executable, "-P", "-m", "tpuctl", "supervisor", "run"]
    with subprocess.Popen(argv, env=environ, stderr=subprocess.PIPE, text=True) as supervising:
        connection, _ = silence.accept()
        told_s = time.monotonic()
        supervising.send_signal(number)
        _, err = supervising.communicate(timeout=20)
        connection.close()
    assert (supervising.returncode, time.monotonic() - told_s < 4.0) == (code, True), err
    assert "Traceback" not in err
