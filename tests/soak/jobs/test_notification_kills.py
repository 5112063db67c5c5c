"""Supervisors killed 200 times while they send messages: none is lost, and by its id none is twice.

`pytest -m soak -s tests/soak/jobs/test_notification_kills.py`: kills at random
moments, and kills within 20 ms after a message has arrived, when its note is not written yet.
"""

import os
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from random import Random

import pytest
from clouds import Runner, serve
from unit.jobs.notifications.receivers import hooks

from tpuctl.cli.shell.runtime import Runtime
from tpuctl.errors import TransientError
from tpuctl.jobs.local import supervisor_lock
from tpuctl.jobs.record import record_store
from tpuctl.jobs.submit.job_submission import ensure_supervisor

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]
KILLS = int(os.environ.get("TPUCTL_SOAK_KILLS", "200"))
AIMED_SHARE = 4
"""A quarter as many kills are aimed."""
OPEN_JOBS = 5
CONTEXT = "local"
SCENARIO = (
    "provisioning_delay_s: 0.1\nacceptance_delay_s: 0.05\n"
    "deletion_delay_s: 0.05\nsuspension_delay_s: 0.05\n"
)
JOB = """\
name: told
resources: {{accelerators: v5litepod-1, use_spot: true}}
run: sleep 1; exit $((RANDOM % 4 == 0))
notify:
  - webhook: {url}
    events: [started, preempted, resumed, failed, finished]
"""


class Place:
    """A simulator, a receiver, and the supervisor that is killed again and again."""

    def __init__(self, cloud, hook, directory):
        self.home, self.hook = cloud.home, hook
        self.tpuctl = Runner(self.home)
        self.store = Runtime(environ={"TPUCTL_HOME": str(self.home)}).store()
        self.file = directory / "job.yaml"
        self.file.write_text(JOB.format(url=hook.url()))
        self.draws = Random(7)  # noqa: S311
        self.submitted = 0

    def jobs(self):
        return record_store.load_all(
            self.store, on_unreadable=lambda error: pytest.fail(str(error))
        )

    def keep_busy(self):
        """New jobs in place of those that ended; and now and then a preemption."""
        unsettled = [job for job in self.jobs() if not job.is_settled]
        for _ in range(OPEN_JOBS - len(unsettled)):
            result = self.tpuctl("job", "submit", str(self.file))
            assert result.code in (0, TransientError.exit_code), result.err
            self.submitted += 1
        running = [job for job in unsettled if job.state == "RUNNING"]
        if running and self.draws.random() < 0.4:
            self.tpuctl("local", "preempt", self.draws.choice(running).job_id)

    def kill_one(self, *, is_aimed):
        """Start a supervisor where none runs, and kill it; returns whether a message had come."""
        argv = supervisor_lock.supervisor_argv(sys.executable, CONTEXT)
        with suppress(TransientError):  # it takes its time on a machine that has much to do
            ensure_supervisor(self.home, CONTEXT, argv)
        before, until_s = len(self.hook.got), time.monotonic() + 4.0
        if is_aimed:
            while len(self.hook.got) == before and time.monotonic() < until_s:
                time.sleep(0.001)
            time.sleep(self.draws.uniform(0, 0.02))
        else:
            time.sleep(self.draws.uniform(0, 4))
        pid = supervisor_lock.holder_pid(self.home, CONTEXT)
        if pid:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        while supervisor_lock.is_locked(self.home, CONTEXT):
            time.sleep(0.005)
        return pid is not None and len(self.hook.got) > before

    def settle(self):
        """Until every job is settled and everybody has been told."""
        result = self.tpuctl("supervisor", "run")
        assert result.code == 0, result.err


@pytest.fixture
def place(tmp_path, monkeypatch):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))  # who is killed clears nothing away
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    options = ("--isolation", "process", "--scenario", str(tmp_path / "scenario.yaml"))
    with hooks() as hook:
        for cloud in serve(tmp_path / "home", *options):
            yield Place(cloud, hook, tmp_path)


def expected(job):
    """The ids that follow from what the record says happened to a job."""
    started = [each.number for each in job.attempts if each.started_s is not None]
    events = [("started" if n == started[0] else "resumed", n) for n in started]
    events += [("preempted", each.number) for each in job.attempts if each.outcome == "preempted"]
    events += [("finished" if job.state != "FAILED" else "failed", len(job.attempts))]
    return {f"{job.job_id}-{event}-{number}" for event, number in events}


@pytest.mark.parametrize("is_aimed", [False, True], ids=["random", "aimed"])
def test_every_message_arrives_once_by_its_id_though_supervisors_are_killed(place, is_aimed):
    kills, after_one = KILLS // (AIMED_SHARE if is_aimed else 1), 0
    for _ in range(kills):
        place.keep_busy()
        after_one += place.kill_one(is_aimed=is_aimed)
    place.settle()
    arrived = Counter(place.hook.keys())
    wanted = set().union(*map(expected, place.jobs()))
    sendings = [each for job in place.jobs() for n in job.notifications for each in n.sendings]
    assert {each.state for each in sendings} == {"sent"}
    assert set(arrived) == wanted, (wanted - set(arrived), set(arrived) - wanted)
    seen: set[str] = set()
    for each in place.hook.got:
        assert each.key not in seen or each.json["repeat"], "a repeat that does not say so"
        seen.add(each.key)
    twice = sum(count - 1 for count in arrived.values())
    print(
        f"\n{kills} kills ({after_one} after a message): {place.submitted} jobs, {len(wanted)} "
        f"messages, 0 lost, {len(arrived)} ids arrived, {twice} of them again and marked as that"
    )
