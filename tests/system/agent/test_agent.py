"""The agent as it is shipped: real processes under -W error, against real HTTP."""

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
from hashlib import sha256
from pathlib import Path

import pytest
from unit.agent.agent_worker import JOB, Worker, alive_in

from tpuctl.agent.job.prepare import workdir_stage
from tpuctl.agent.job.state import rundir


def archive(files: dict[str, bytes], **extra) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            for key, value in extra.items():
                setattr(entry, key, value)
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def test_a_run_ends_with_its_status_and_its_log_in_the_bucket(worker):
    status = worker.finish("echo hello; echo oops >&2")
    assert (status["phase"], status["stage"], status["exit_status"]) == ("ended", "run", 0)
    assert status["signal"] is None
    assert worker.text() == "hello\noops"
    uploaded = worker.server.store.get_range("logs/a1/w0/000000000000")
    assert uploaded == worker.log()
    assert status["uploaded_bytes"] == status["log_bytes"] == len(uploaded)
    assert worker.server.authorizations == {"Bearer a-token"}


def test_the_program_waits_at_the_barrier(worker):
    worker.run("echo running", setup="echo setting up")
    worker.until(phase="prepared")
    assert worker.text() == "setting up"
    worker.agent("start")
    worker.until(closed=True)
    assert worker.text() == "setting up\nrunning"


def test_an_exit_status_a_signal_and_a_failed_setup_are_told_apart(worker, tmp_path):
    status = worker.finish("exit 137")
    assert (status["exit_status"], status["signal"]) == (137, None)
    killed = Worker(tmp_path / "second", worker.server)
    status = killed.finish("kill -9 $$", logs="logs/a1/w1", final="status/a1/w1")
    assert (status["exit_status"], status["signal"]) == (None, signal.SIGKILL)
    unprepared = Worker(tmp_path / "third", worker.server)
    unprepared.run("echo never", setup="exit 3", logs="logs/a1/w2")
    status = unprepared.until(closed=True)
    assert (status["stage"], status["exit_status"]) == ("setup", 3)


HOLD = """
import fcntl, os, time
lock = open(os.environ["TMPDIR"] + "/libtpu_lockfile", "w")
fcntl.lockf(lock, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("job", ["", "another-1", JOB])
def test_chips_that_somebody_else_holds_end_a_run_before_the_program(
    worker, monkeypatch, tmp_path, job
):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    argv = [sys.executable, "-c", HOLD]
    environ = {**os.environ, "TPUCTL_JOB": job}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=environ) as holder:
        try:
            assert holder.stdout.readline() == b"held\n"
            status = worker.finish("echo began")
        finally:
            holder.kill()
    if job == JOB:  # an earlier run of the same job, which is on its way out
        assert (status["stage"], status["exit_status"]) == ("run", 0)
        return
    assert (status["stage"], status["exit_status"]) == ("chips", rundir.UNREACHED)
    assert status["message"].startswith(f"process {holder.pid} of ")
    assert "libtpu_lockfile" in status["message"]
    assert worker.text().startswith("tpuctl: the chips of this worker are held by process ")


def test_the_workdir_is_fetched_verified_and_unpacked(worker):
    data = archive({"train.py": b"print('from the workdir')", "data/x.txt": b"x"})
    worker.server.store.put_if_absent("jobs/workdir.tar.gz", data)
    worker.finish(
        "python3 train.py && cat data/x.txt",
        workdir="jobs/workdir.tar.gz",
        workdir_sha256=sha256(data).hexdigest(),
    )
    assert worker.text() == "from the workdir\nx"


def test_a_redirected_worker_reads_and_writes_there_without_a_token(worker, monkeypatch):
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", worker.server.endpoint)
    data = archive({"x.txt": b"x"})
    worker.server.store.put_if_absent("w.tar.gz", data)
    status = worker.finish(
        "cat x.txt",
        endpoint="http://127.0.0.1:9",
        workdir="w.tar.gz",
        workdir_sha256=sha256(data).hexdigest(),
    )
    assert worker.text() == "x"
    assert status["uploaded_bytes"] == status["log_bytes"]
    assert worker.server.authorizations == {None}


@pytest.mark.parametrize(
    ("name", "extra"),
    [("../escape", {}), ("/etc/escape", {}), ("a/./b", {}), ("link", {"type": tarfile.SYMTYPE})],
)
def test_an_archive_that_would_escape_is_not_unpacked(worker, monkeypatch, capsys, name, extra):
    monkeypatch.setenv("GCE_METADATA_HOST", worker.server.address)
    data = archive({name: b"" if extra else b"x"}, **extra)
    worker.server.store.put_if_absent("w.tar.gz", data)
    worker.configure("true", workdir="w.tar.gz", workdir_sha256=sha256(data).hexdigest())
    assert workdir_stage.fetch(str(worker.directory)) == 1
    assert "not a plain file" in capsys.readouterr().err
    assert not list(worker.home.rglob("escape"))


def test_a_workdir_that_changed_is_refused(worker):
    worker.server.store.put_if_absent("w.tar.gz", archive({"a": b"x"}))
    worker.run("true", workdir="w.tar.gz", workdir_sha256="0" * 64)
    status = worker.until(closed=True)
    assert (status["stage"], status["exit_status"]) == ("fetch", 65)
    assert worker.text() == "tpuctl: the workdir is not what was submitted"


def test_progress_is_the_last_step_line(worker):
    status = worker.finish("echo resumed step=40; echo step=41 loss=0.5 note=ok; echo a step=99")
    assert (status["resume_step"], status["step"]) == (40, 41)
    assert status["metrics"] == {"loss": 0.5, "note": "ok"}


def test_a_step_that_is_no_number_is_no_progress(worker):
    steps = ["9" * 5000, "²", "-1", "", "1e3"]
    said = "; ".join(f"echo step={step}; echo resumed step={step}" for step in steps)
    status = worker.finish(said)
    assert status["exit_status"] == 0
    assert "step" not in status
    assert "resume_step" not in status


def test_stop_is_sigterm_then_sigkill_of_the_whole_group(worker):
    worker.begin("trap 'echo term' TERM; sleep 100 & echo up; while :; do wait; done")
    worker.until_printed("up")
    worker.agent("stop", "--grace", "0.3")
    status = worker.until(closed=True)
    assert (status["signal"], status["stopped"]) == (signal.SIGKILL, True)
    assert worker.text() == "up\nterm"
    assert alive_in(status["pid"]) == []


def test_what_a_shell_started_has_the_grace_that_the_shell_did_not_need(worker):
    saving = "trap 'sleep 0.3; echo saved; exit' TERM; echo up; while :; do sleep 0.05; done"
    worker.begin(f"({saving}) & wait")
    worker.until_printed("up")
    worker.order("stop", "--grace", "30")
    status = worker.until(closed=True)
    assert status["signal"] == signal.SIGTERM
    assert worker.text().splitlines()[-1] == "saved"
    assert alive_in(status["pid"]) == []


def test_a_stop_at_the_barrier_ends_the_run_before_it_began(worker):
    worker.run("echo never")
    worker.until(phase="prepared")
    worker.order("stop")
    status = worker.until(closed=True)
    assert (status["stage"], status["exit_status"], status["stopped"]) == ("run", None, True)


def test_sigterm_to_the_agent_is_the_worker_shutting_down(worker):
    status = worker.begin("exec sleep 100")
    worker.server.metadata["instance/preempted"] = "TRUE"  # too late for anybody to be told
    os.kill(status["agent_pid"], signal.SIGTERM)
    status = worker.until(closed=True)
    assert (status["terminated"], status["preempted"], status["signal"]) == (True, True, 15)


def test_what_the_program_leaves_behind_is_ended(worker):
    status = worker.finish("(trap '' TERM; sleep 100) & echo done")
    assert status["exit_status"] == 0
    assert alive_in(status["pid"]) == []


def test_run_twice_changes_nothing(worker):
    worker.finish("echo once")
    assert worker.agent("run").returncode == 0
    assert worker.text() == "once"


def test_watch_streams_log_and_status_and_ends_with_the_run(worker):
    worker.finish(r"echo a; printf '\377\n'")
    done = worker.agent("watch", "--offset", "0")
    hello, log, status, gone = map(json.loads, done.stdout.splitlines())
    assert hello == {"protocol": 2}
    assert log["offset"] == 0
    assert "log64" in log  # bytes that are not text travel as base64
    assert (status["status"]["phase"], gone) == ("ended", {"gone": False})


def test_watch_says_that_the_agent_is_gone(worker):
    worker.run("exec sleep 100")
    status = worker.until(phase="prepared")
    os.kill(status["agent_pid"], signal.SIGKILL)
    last = json.loads(worker.agent("watch").stdout.splitlines()[-1])
    assert last == {"gone": True}
    (worker.directory / "status.json").write_text(json.dumps({**status, "closed": True}))


def test_a_later_attempt_ends_an_earlier_one(worker):
    worker.begin("exec sleep 100")
    second_attempt(worker).finish("echo second")
    assert worker.until(phase="ended")["stopped"] is True


def test_a_later_attempt_ends_what_an_earlier_one_still_gives_time(worker):
    status = worker.begin("(trap '' TERM; echo up; while :; do sleep 0.05; done) & wait")
    worker.order("stop", "--grace", "1000")
    later = second_attempt(worker)
    later.configure("echo second")
    impatient = "from tpuctl.agent.job import launch as b; b.EVICTION_S = 0.1\n"
    impatient += f"import sys; b.start_run({str(later.directory)!r})"
    subprocess.run(
        [sys.executable, "-c", impatient], cwd=later.directory, env=worker.environ,
        stdin=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    later.until(phase="prepared")
    assert alive_in(status["pid"]) == []
    later.order("start")
    later.until(closed=True)


def test_a_later_attempt_removes_a_log_that_the_bucket_has(worker):
    worker.finish("echo first")
    second_attempt(worker).finish("echo second")
    assert worker.log() == b""
    assert worker.server.store.get_range("logs/a1/w0/000000000000").endswith(b" first\n")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="tells no start times")
def test_a_later_attempt_ends_the_program_of_a_killed_agent(worker):
    status = worker.begin("exec sleep 100")
    os.kill(status["agent_pid"], signal.SIGKILL)
    assert alive_in(status["pid"]) != []
    second_attempt(worker).finish("echo second")
    assert alive_in(status["pid"]) == []
    (worker.directory / "status.json").write_text(json.dumps({**status, "closed": True}))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="tells no start times")
def test_a_process_that_only_has_the_number_of_a_program_is_left_alone(worker):
    with subprocess.Popen(["sleep", "100"], start_new_session=True) as stranger:
        status = {"pid": stranger.pid, "pid_started": 1, "phase": "running", "closed": True}
        (worker.directory / "lock").touch()
        (worker.directory / "status.json").write_text(json.dumps(status))
        second_attempt(worker).finish("echo second")
        assert stranger.poll() is None
        stranger.kill()


def second_attempt(worker: Worker) -> Worker:
    return Worker(worker.home, worker.server, attempt=2)


def test_status_of_no_run_is_exit_1(worker):
    assert worker.agent("status").returncode == 1
