"""Who may tell the agent what, and what it does on notice and in a dump."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from unit.agent.agent_worker import JOB, Worker, alive_in

from tpuctl.agent.job.logs.redaction import Redaction
from tpuctl.agent.job.state import processes
from tpuctl.agent.tools import thread_view

WAITING = """\
import threading, time
def the_loop_that_hangs():
    print("up", flush=True)
    time.sleep(100)
threading.Thread(target=the_loop_that_hangs, daemon=True).start()
time.sleep(100)
"""


def test_a_supervisor_with_an_old_fence_is_refused(worker):
    worker.run("exec sleep 100", fence=7)
    worker.until(phase="prepared")
    assert worker.agent("start", "--fence", "6").returncode == 3
    assert worker.agent("stop", "--fence", "6", "--grace", "0").returncode == 3
    assert worker.status()["phase"] == "prepared"
    assert worker.agent("start", "--fence", "8").returncode == 0
    worker.until(phase="running")
    assert worker.agent("stop", "--fence", "7", "--grace", "0").returncode == 3
    assert worker.agent("stop", "--fence", "8", "--grace", "0").returncode == 0
    assert worker.until(closed=True)["stopped"] is True


def test_an_old_supervisor_begins_nothing_beside_a_later_attempt(worker):
    later = Worker(worker.home, worker.server, attempt=2)
    status = later.begin("exec sleep 100", fence=9)
    worker.configure("echo never", fence=8)
    assert worker.agent("run").returncode == 3
    assert worker.status() == {}
    assert alive_in(status["pid"]) != []
    later.close()


def test_an_earlier_attempt_begins_nothing_beside_a_later_one(worker):
    later = Worker(worker.home, worker.server, attempt=10)
    status = later.begin("exec sleep 100")
    worker.run("echo never")
    assert worker.until(closed=True)["stopped"] is True
    assert alive_in(status["pid"]) != []
    later.close()


def test_run_goes_on_as_watch(worker):
    worker.configure("true", setup="exit 4")
    lines = worker.agent("run", "--watch").stdout.splitlines()
    assert json.loads(lines[0]) == {"protocol": 2}
    assert json.loads(lines[-1]) == {"gone": False}
    assert json.loads(lines[-2])["status"]["exit_status"] == 4


def test_watch_of_no_run_says_nothing(worker):
    done = worker.agent("watch")
    assert (done.returncode, done.stdout) == (1, "")


def test_a_notice_of_preemption_lets_the_program_save_at_once(worker):
    worker.begin("trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.05; done")
    worker.until_printed("up")
    worker.server.preempted = True
    status = worker.until(closed=True)
    assert (status["preempted"], status["stopped"], status["exit_status"]) == (True, False, 0)
    assert status["last_lines"][-1] == "saved"


def test_a_notice_at_the_barrier_ends_the_run(worker):
    worker.run("echo never")
    worker.until(phase="prepared")
    worker.server.preempted = True
    status = worker.until(closed=True)
    assert (status["preempted"], status["exit_status"], status["signal"]) == (True, None, None)


def test_a_program_that_goes_on_after_a_notice_can_be_stopped(worker):
    worker.begin("trap 'echo noticed' TERM; echo up; while :; do sleep 0.05; done")
    worker.until_printed("up")
    worker.server.preempted = True
    worker.until_printed("noticed")
    worker.until(notice="preempted", phase="running")
    worker.order("stop", "--grace", "0")
    assert worker.until(closed=True)["signal"] == signal.SIGKILL


def test_an_engine_goes_on_after_a_notice_and_has_its_drain_when_the_worker_goes(worker):
    worker.begin(
        "trap 'echo told; sleep 0.3; echo done; exit 0' TERM; echo up; "
        "while :; do sleep 0.05; done",
        drain_s=60.0,
    )
    worker.until_printed("up")
    worker.server.preempted = True
    worker.until(notice="preempted", phase="running")
    assert b"told" not in worker.log()
    os.kill(worker.status()["agent_pid"], signal.SIGTERM)
    status = worker.until(closed=True)
    assert (status["exit_status"], status["preempted"], status["terminated"]) == (0, True, True)
    assert status["last_lines"][-2:] == ["told", "done"]


def test_a_disk_that_takes_no_word_keeps_nobody_from_stopping(worker):
    worker.begin("exec sleep 100")
    (worker.directory / "stop").mkdir()  # nothing can be given that name any more
    assert worker.order("stop", "--grace", "5") == 0
    (worker.directory / "stop").rmdir()
    status = worker.until(closed=True)
    assert (status["stopped"], status["terminated"], status["signal"]) == (True, False, 15)


def test_maintenance_is_told(worker):
    worker.begin("exec sleep 100")
    worker.server.announce("instance/maintenance-event", "TERMINATE_ON_HOST_MAINTENANCE")
    worker.until(maintenance="TERMINATE_ON_HOST_MAINTENANCE", phase="running")
    worker.until_printed("maintenance of this worker's host: TERMINATE_ON_HOST_MAINTENANCE")


def test_a_dump_has_every_stack_and_no_secret(worker):
    (worker.home / "hangs.py").write_text(WAITING)
    worker.begin(f'python3 {worker.home}/hangs.py "$KEY"; true', {"KEY": "hunter22"})
    worker.until_printed("up")
    worker.order("stop", "--grace", "1", "--dump")
    status = worker.until(closed=True)
    assert status["stopped"] is True
    text = worker.server.store.get_range("stacks/a1/w0").decode()
    assert "hangs.py ***" in text
    assert text.count("State") == 0
    assert "waits in" in text
    assert "Fatal Python error: Aborted" in text
    assert "in the_loop_that_hangs" in text
    assert "hunter22" not in text
    assert alive_in(status["pid"]) == []


def test_what_ignores_the_dump_is_stopped_as_ever(worker):
    child = worker.directory / "tpuctl" / "agent" / "job" / "child.py"
    child.write_text(child.read_text().replace("DUMP_S = 5.0", "DUMP_S = 0.1"))
    deaf = "trap '' ABRT; trap 'echo saved; exit 5' TERM; echo up"
    worker.begin(f"{deaf}; while :; do sleep 0.05; done")
    worker.until_printed("up")
    worker.order("stop", "--grace", "20", "--dump")
    status = worker.until(closed=True)
    assert (status["exit_status"], status["last_lines"][-1]) == (5, "saved")


def test_a_second_agent_for_a_dead_one_is_never_begun(worker):
    status = worker.begin("exec sleep 100")
    os.kill(status["agent_pid"], signal.SIGKILL)
    assert worker.agent("run").returncode == 0
    assert json.loads(worker.agent("watch").stdout.splitlines()[-1]) == {"gone": True}
    os.killpg(status["pid"], signal.SIGKILL)
    (worker.directory / "status.json").write_text(json.dumps({**status, "closed": True}))


def test_a_disk_that_takes_no_fence_keeps_nobody_from_stopping(worker):
    worker.begin("exec sleep 100", fence=5)
    lock = worker.home / f"{JOB}.fence.lock"
    lock.unlink()
    lock.mkdir()  # as on a disk that is read-only now
    assert worker.agent("stop", "--grace", "5", "--fence", "4").returncode == 3
    assert worker.agent("stop", "--grace", "5", "--fence", "6").returncode == 0
    assert worker.until(closed=True)["stopped"] is True


def test_a_watch_of_an_agent_that_stands_still_does_not_say_that_all_is_well(worker):
    status = worker.begin("exec sleep 100")
    os.kill(status["agent_pid"], signal.SIGSTOP)
    long_ago_s = time.time() - 60.0
    os.utime(worker.directory / "status.json", (long_ago_s, long_ago_s))
    watched = worker.agent("watch")
    os.kill(status["agent_pid"], signal.SIGCONT)
    assert (watched.returncode, watched.stdout) == (75, "")
    assert watched.stderr == "the agent has done nothing for 20 s\n"


def test_a_pipe_for_a_step_file_stops_nothing(worker):
    told = worker.finish('mkfifo "$TPUCTL_STEP_FILE"; echo step=7; exit 3')
    assert (told["exit_status"], told["step"]) == (3, 7)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="tells of no processes")
def test_what_went_to_a_session_of_its_own_is_ended_with_the_run(worker):
    worker.finish("setsid sleep 878 & echo $! > pid; exit 3")
    pid = int((worker.directory / "workdir" / "pid").read_text())
    assert not processes.is_living(pid)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="tells of no processes")
def test_it_does_not_go_on_beside_a_later_attempt(worker):
    status = worker.begin("setsid sleep 878 & echo $! > pid; echo up; wait")
    worker.until_printed("up")
    os.kill(status["agent_pid"], signal.SIGKILL)
    Worker(worker.home, worker.server, attempt=2).finish("true")
    pid = int((worker.directory / "workdir" / "pid").read_text())
    assert not processes.is_living(pid)
    (worker.directory / "status.json").write_text(json.dumps({**status, "closed": True}))


def test_a_command_in_a_dump_is_cut_when_it_has_no_secret_any_more():
    redaction = Redaction()
    redaction.add(["hf_SECRETSECRET"])
    argv = ["sleep", "100", "x" * 251, "--token=hf_SECRETSECRET"]
    process = subprocess.Popen(
        ["bash", "-c", "echo up; read", *argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        process.stdout.readline()  # until then Linux may have no command line of it
        text = thread_view.process_stacks(process.pid, redaction.redact_json)
    finally:
        process.kill()
        process.communicate()
    assert "--token=" in text
    assert "hf_" not in text
