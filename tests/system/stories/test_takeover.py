"""Two supervisors as processes, each with a home of its own: one dies or is stopped."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from system.stories.cut_supervisor import ACTIONS
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.jobs.leases import lease
from tpuctl.jobs.leases.heartbeat import HEARTBEATS
from tpuctl.jobs.local import supervisor_lock
from tpuctl.jobs.record import record_store
from tpuctl.jobs.submit.job_submission import Submitter, submit
from tpuctl.models.job import JobSpec, Resources
from tpuctl.operations.local import local_cloud

QUICK = "provisioning_delay_s: 0.3\nacceptance_delay_s: 0.1\ndeletion_delay_s: 0.1\n"
PROGRAM = 'echo "step=1"; exec sleep 1000'
DEADLINE_S = 25.0
SUPERVISING = """
import asyncio, sys
from pathlib import Path
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.jobs.supervisor import supervisor
from tpuctl.jobs.leases.supervisor_scope import SupervisorScope
from tpuctl.jobs.leases.heartbeat import LeaseTerms

home = Path(sys.argv[1])
runtime = Runtime(environ={"TPUCTL_HOME": str(home)})
runtime.shared.context = sys.argv[2]
duty = SupervisorScope(("me",), None, terms=LeaseTerms(renew_s=0.5, hold_s=4.0, dead_after_s=6.0))
say = lambda line: print(line, flush=True)
outside = runtime.outside
if sys.argv[3:]:
    sys.path.insert(0, sys.argv[3])
    from system.stories.cut_supervisor import cut
    outside = cut(outside, sys.argv[4], int(sys.argv[5]))
asyncio.run(supervisor.run(outside, duty, home=home, say=say))
"""


class Machine:
    """A home, a supervisor in it, and what that says."""

    def __init__(self, home: Path, context: str, *cut: str) -> None:
        """`cut` is where the program that cuts is, the action, and the signal."""
        self.home, self.context = home, context
        self.log = home / "said"
        argv = [sys.executable, "-c", SUPERVISING, str(home), context, *cut]
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(argv, stdout=out, stderr=out)
        until(lambda: supervisor_lock.holder_pid(home, context) == self.process.pid)

    def says(self, text: str) -> bool:
        return text in self.log.read_text()

    def send(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def lab(at_home, tmp_path):
    """A simulator on real time, as the context of two homes."""
    here = at_home(tmp_path / "here")
    scenario = tmp_path / "quick.yaml"
    scenario.write_text(QUICK)
    line = local_cloud.up(here.home, "local", local_cloud.SimulatorOptions(scenario=scenario))
    there = at_home(tmp_path / "there")
    made = there(
        "context", "create", "lab", "--project", line["project"], "--zone", line["zone"],
        "--bucket", line["bucket"], "--credentials", "anonymous", "--dialer", line["vpc"],
        "--tpu-endpoint", line["tpu_grpc"], "--storage-endpoint", line["storage"],
    )  # fmt: skip
    assert made.code == 0, made.err
    yield here, there
    local_cloud.down(here.home, "local")


@pytest.fixture
def outside(lab):
    runtime = Runtime(environ={"TPUCTL_HOME": str(lab[0].home)})
    yield runtime.outside
    runtime.close()


@pytest.fixture
def machines(lab):
    """The first one, and how to start the second: once the job is in the first one's care."""
    here, there = lab
    with closing(Machine(here.home, "local")) as first, ExitStack() as later:
        yield first, lambda: later.enter_context(closing(Machine(there.home, "lab")))


def until(condition, story=lambda: "it never came") -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, story()
        time.sleep(0.1)


def submitted(outside):
    wanted = JobSpec("taken", PROGRAM, resources=Resources("v5litepod-1"))
    return submit(wanted, outside, Submitter("me"), now_s=time.time()).job_id


def found(outside, job_id):
    return record_store.load(outside.store, job_id).record


def is_running(outside, job_id):
    now = found(outside, job_id)
    return now.state == "RUNNING" and all(each.phase == "running" for each in now.attempt.workers)


def running(outside) -> str:
    job_id = submitted(outside)
    until(lambda: is_running(outside, job_id), lambda: found(outside, job_id))
    return job_id


def cancelled(outside, job_id):
    """The job after its end; every slice that it ever had is gone."""
    record_store.request_cancel(outside.store, job_id, time.time())
    lease.notify_holder(outside.store, job_id)
    until(lambda: lease.load_lease(outside.store, job_id) is None)
    assert outside.tpu.list_queued_resources() == ([], [])
    assert outside.tpu.list_nodes() == ([], [])
    return found(outside, job_id)


def test_the_job_of_a_stopped_and_of_a_killed_supervisor_is_taken_over_and_made_once(
    outside, machines
):
    first, start_second = machines
    job_id = running(outside)
    second = start_second()
    holder = lease.load_lease(outside.store, job_id).holder
    first.send(signal.SIGSTOP)  # for longer than its lease
    until(lambda: found(outside, job_id).fence == 2)
    assert second.says(f"{job_id}: supervised here")
    written = record_store.generation(outside.store, job_id)
    first.send(signal.SIGCONT)
    until(lambda: first.says(f"{job_id}: another supervisor took over"))
    assert outside.store.head(HEARTBEATS + holder) is None
    assert found(outside, job_id).fence == 2
    assert first.process.poll() is None  # it goes on, for other jobs
    second.send(signal.SIGKILL)
    until(lambda: found(outside, job_id).fence == 3)  # such as this one
    ended = cancelled(outside, job_id)
    assert (ended.state, len(ended.attempts), ended.fence) == ("CANCELLED", 1, 3)
    assert record_store.generation(outside.store, job_id) > written
    assert json.loads(outside.store.get_range(f"tpuctl/records/{job_id}"))["fence"] == 3
    assert not second.says("another supervisor took over")


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "suspended"])
@pytest.mark.parametrize("action", ACTIONS)
def test_a_supervisor_that_is_cut_off_in_an_action_leaves_one_job_and_no_slice(
    outside, lab, action, number
):
    here, there = lab
    wanted = JobSpec("taken", "echo step=1; sleep 1", resources=Resources("v5litepod-1"))
    job_id = submit(wanted, outside, Submitter("me"), now_s=time.time()).job_id
    tests = str(Path(__file__).parents[2])
    with closing(Machine(here.home, "local", tests, action, str(int(number)))) as first:
        os.waitid(os.P_PID, first.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        with closing(Machine(there.home, "lab")) as second:
            until(lambda: second.says(f"{job_id}: supervised here"))
            if number == signal.SIGSTOP:
                first.send(signal.SIGCONT)
            until(lambda: found(outside, job_id).state == "SUCCEEDED", second.log.read_text)
            until(lambda: lease.load_lease(outside.store, job_id) is None)
    ended = found(outside, job_id)
    assert (len(ended.attempts), ended.fence) == (1, 2)
    assert outside.tpu.list_queued_resources() == ([], [])
    assert outside.tpu.list_nodes() == ([], [])
