"""200 kills of a supervisor at random moments of a life that is nothing but messages.

`pytest -m soak -s tests/soak/jobs/test_notification_counts.py`: three jobs for
each kill, two targets for each job. No worker and no cloud takes part, so that most
moments are moments of sending.
"""

import os
import subprocess
import sys
import time
from collections import Counter
from random import Random

import pytest
from unit.jobs.notifications.receivers import hooks

from soak.jobs.world.cancelling_supervisor import CONTEXT, OWNER
from tpuctl.jobs.local import supervisor_lock
from tpuctl.jobs.record import record_store
from tpuctl.jobs.submit.job_submission import put_job
from tpuctl.models.job import JobRecord, JobSpec
from tpuctl.models.notify.notify_spec import NotifyTarget, TargetKind
from tpuctl.store import open_store

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]
KILLS = int(os.environ.get("TPUCTL_SOAK_KILLS", "200"))
NEW_JOBS = 3
LIFE_S = 1.5
"""A supervisor is killed within so long after it holds its lock."""
PATHS = ("/first", "/second")


class Seat:
    """The place of a supervisor, which one process after the other takes."""

    def __init__(self, directory):
        self.bucket, self.home = directory / "bucket", directory / "home"
        self.bucket.mkdir()
        self.store = open_store(str(self.bucket))

    def start(self) -> subprocess.Popen:
        argv = [sys.executable, "-m", "soak.jobs.world.cancelling_supervisor"]
        return subprocess.Popen(
            [*argv, str(self.bucket), str(self.home)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def submit(self, job_id: str, targets: tuple[NotifyTarget, ...]) -> None:
        spec = JobSpec("told", "true", notify=targets)
        put_job(
            self.store,
            JobRecord(
                job_id, spec, OWNER, time.time(), "us-west4-a", "v5litepod-1",
                cancel_requested_s=time.time(),
            ),
        )  # fmt: skip

    def records(self) -> list[JobRecord]:
        return record_store.load_all(self.store, lambda error: pytest.fail(str(error)))


def test_no_message_is_lost_and_by_its_id_none_is_there_twice(tmp_path):
    seat, draws = Seat(tmp_path), Random(11)  # noqa: S311
    with hooks() as hook:
        targets = tuple(NotifyTarget(TargetKind.WEBHOOK, hook.url(path)) for path in PATHS)
        for number in range(KILLS):
            for each in range(NEW_JOBS):
                seat.submit(f"told-{number}-{each}", targets)
            process = seat.start()
            while supervisor_lock.holder_pid(seat.home, CONTEXT) != process.pid:
                assert process.poll() is None
                time.sleep(0.005)
            time.sleep(draws.uniform(0, LIFE_S))
            process.kill()
            process.wait()
        assert seat.start().wait(timeout=900) == 0
        got = list(hook.got)
    records = seat.records()
    assert {record.state for record in records} == {"CANCELLED"}
    wanted = {f"{record.job_id}-finished-0" for record in records}
    assert len(wanted) == KILLS * NEW_JOBS
    arrived = {path: Counter(each.key for each in got if each.path == path) for path in PATHS}
    assert all(set(found) == wanted for found in arrived.values())
    seen: set[tuple[str, str]] = set()
    for each in got:
        assert (each.path, each.key) not in seen or each.json["repeat"]
        seen.add((each.path, each.key))
    twice = sum(count - 1 for found in arrived.values() for count in found.values())
    messages = len(wanted) * len(PATHS)
    print(
        f"\n{KILLS} kills at random moments: {messages} messages, 0 lost, {len(seen)} by their "
        f"ids, {twice} of them again and marked as that"
    )
