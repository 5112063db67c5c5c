"""The agent as it is shipped: the real file, run by python3 under -W error, against real HTTP."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from hashlib import sha256
from pathlib import Path

import pytest
from bucket_server import serving

import tpuctl

AGENT = Path(tpuctl.__file__).parent / "agent" / "agent.py"
DEADLINE_S = 20.0


class Worker:
    """One run's directory and the commands to its agent."""

    def __init__(self, home: Path, server) -> None:
        self.home = home
        self.server = server
        self.directory = home / "digits-a1b2c3-a1"
        self.directory.mkdir()

    def configure(self, run: str, **extra) -> None:
        config = {
            "protocol": 1, "job": "digits-a1b2c3", "endpoint": self.server.endpoint,
            "bucket": "b", "logs": "logs/a1/w0", "run": run,
            "env": {"TPUCTL_WORKER_ID": "0"}, **extra,
        }  # fmt: skip
        (self.directory / "config.json").write_text(json.dumps(config))

    def agent(self, verb: str, *options: str) -> subprocess.CompletedProcess:
        argv = [sys.executable, "-W", "error", AGENT, verb, self.directory, *options]
        environ = {**os.environ, "GCE_METADATA_HOST": self.server.address}
        done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=DEADLINE_S)
        assert "Warning" not in done.stderr
        return done

    def run(self, command: str, **extra) -> None:
        self.configure(command, **extra)
        assert self.agent("run").returncode == 0

    def status(self) -> dict:
        try:
            return json.loads((self.directory / "status.json").read_text())
        except FileNotFoundError:
            return {}

    def until(self, **wanted) -> dict:
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            status = self.status()
            if all(status.get(key) == value for key, value in wanted.items()):
                return status
            time.sleep(0.01)
        raise AssertionError(f"{wanted} never came: {self.status()}\n{self.errors()}")

    def finish(self, command: str, **extra) -> dict:
        self.run(command, **extra)
        self.until(phase="prepared")
        self.agent("start")
        return self.until(closed=True)

    def errors(self) -> str:
        path = self.directory / "agent.err"
        return path.read_text() if path.exists() else ""

    def text(self) -> str:
        lines = (self.directory / "log").read_text().splitlines()
        return "\n".join(line.partition(" ")[2] for line in lines)


@pytest.fixture
def worker(tmp_path):
    (tmp_path / "home").mkdir()
    with serving(tmp_path / "bucket") as server:
        worker = Worker(tmp_path / "home", server)
        yield worker
        pid = worker.status().get("agent_pid")
        if pid and not worker.status().get("closed"):
            worker.agent("stop", "--grace", "0")
            worker.until(closed=True)
        assert worker.errors() == ""


def alive_in(group: int) -> list[str]:
    """The states of a process group's processes that are not dead yet."""
    rows = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended since
            rows.append(file.read_text().rpartition(")")[2].split())
    return [state for state, _parent, pgid, *_ in rows if int(pgid) == group and state != "Z"]


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
    assert uploaded == (worker.directory / "log").read_bytes()
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
    assert worker.finish("exit 7")["exit_status"] == 7
    killed = Worker(tmp_path, worker.server)
    status = killed.finish("kill -9 $$", logs="logs/a1/w1")
    assert (status["exit_status"], status["signal"]) == (None, signal.SIGKILL)
    (tmp_path / "third").mkdir()
    unprepared = Worker(tmp_path / "third", worker.server)
    unprepared.run("echo never", setup="exit 3", logs="logs/a1/w2")
    status = unprepared.until(closed=True)
    assert (status["stage"], status["exit_status"]) == ("setup", 3)


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
def test_an_archive_that_would_escape_is_not_unpacked(worker, name, extra):
    data = archive({name: b"" if extra else b"x"}, **extra)
    worker.server.store.put_if_absent("w.tar.gz", data)
    worker.run("true", workdir="w.tar.gz", workdir_sha256=sha256(data).hexdigest())
    status = worker.until(closed=True)
    assert (status["stage"], status["exit_status"]) == ("fetch", 1)
    assert "not a plain file" in worker.text()
    assert not list(worker.home.rglob("escape"))


def test_a_workdir_that_changed_is_refused(worker):
    worker.server.store.put_if_absent("w.tar.gz", archive({"a": b"x"}))
    worker.run("true", workdir="w.tar.gz", workdir_sha256="0" * 64)
    assert worker.until(closed=True)["stage"] == "fetch"
    assert worker.text() == "tpuctl: the workdir is not what was submitted"


def test_progress_is_the_last_step_line(worker):
    status = worker.finish("echo resumed step=40; echo step=41 loss=0.5 note=ok; echo a step=99")
    assert (status["resume_step"], status["step"]) == (40, 41)
    assert status["metrics"] == {"loss": 0.5, "note": "ok"}


@pytest.mark.parametrize("step", ["9" * 5000, "²", "-1", "", "1e3"])
def test_a_step_that_is_no_number_is_no_progress(worker, step):
    status = worker.finish(f"echo step={step}; echo resumed step={step}")
    assert status["exit_status"] == 0
    assert "step" not in status
    assert "resume_step" not in status


def test_stop_is_sigterm_then_sigkill_of_the_whole_group(worker):
    worker.run("trap 'echo term' TERM; sleep 100 & echo up; while :; do wait; done")
    worker.until(phase="prepared")
    worker.agent("start")
    status = worker.until(phase="running")
    deadline = time.monotonic() + DEADLINE_S
    while "up" not in worker.text() and time.monotonic() < deadline:
        time.sleep(0.01)
    worker.agent("stop", "--grace", "0.3")
    status = worker.until(closed=True)
    assert (status["signal"], status["stopped"]) == (signal.SIGKILL, True)
    assert worker.text() == "up\nterm"
    assert alive_in(status["pid"]) == []


def test_what_a_shell_started_has_the_grace_that_the_shell_did_not_need(worker):
    saving = "trap 'sleep 0.3; echo saved; exit' TERM; echo up; while :; do sleep 0.05; done"
    worker.run(f"({saving}) & wait")
    worker.until(phase="prepared")
    worker.agent("start")
    worker.until(phase="running")
    deadline = time.monotonic() + DEADLINE_S
    while "up" not in worker.text() and time.monotonic() < deadline:
        time.sleep(0.01)
    worker.agent("stop", "--grace", "30")
    status = worker.until(closed=True)
    assert status["signal"] == signal.SIGTERM
    assert worker.text().splitlines()[-1] == "saved"
    assert alive_in(status["pid"]) == []


def test_a_stop_at_the_barrier_ends_the_run_before_it_began(worker):
    worker.run("echo never")
    worker.until(phase="prepared")
    worker.agent("stop")
    status = worker.until(closed=True)
    assert (status["stage"], status["exit_status"], status["stopped"]) == ("run", None, True)


def test_sigterm_to_the_agent_is_the_worker_shutting_down(worker):
    worker.server.preempted = True
    worker.run("exec sleep 100")
    worker.until(phase="prepared")
    worker.agent("start")
    os.kill(worker.until(phase="running")["agent_pid"], signal.SIGTERM)
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
    assert hello == {"protocol": 1}
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
    worker.run("exec sleep 100")
    worker.until(phase="prepared")
    worker.agent("start")
    worker.until(phase="running")
    second_attempt(worker).finish("echo second", logs="logs/a2/w0")
    assert worker.until(phase="ended")["stopped"] is True


def test_a_later_attempt_ends_what_an_earlier_one_still_gives_time(worker, monkeypatch):
    worker.run("(trap '' TERM; echo up; while :; do sleep 0.05; done) & wait")
    worker.until(phase="prepared")
    worker.agent("start")
    status = worker.until(phase="running")
    worker.agent("stop", "--grace", "1000")
    later = second_attempt(worker)
    later.configure("echo second", logs="logs/a2/w0")
    impatient = "import sys, agent; agent.GRACE_S = 0.1; agent.run(agent.Path(sys.argv[1]))"
    monkeypatch.setenv("PYTHONPATH", str(Path(AGENT).parent))
    subprocess.run([sys.executable, "-c", impatient, later.directory], check=True)
    later.until(phase="prepared")
    assert alive_in(status["pid"]) == []
    later.agent("start")
    later.until(closed=True)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="tells no start times")
def test_a_later_attempt_ends_the_program_of_a_killed_agent(worker):
    worker.run("exec sleep 100")
    worker.until(phase="prepared")
    worker.agent("start")
    status = worker.until(phase="running")
    os.kill(status["agent_pid"], signal.SIGKILL)
    assert alive_in(status["pid"]) != []
    second_attempt(worker).finish("echo second", logs="logs/a2/w0")
    assert alive_in(status["pid"]) == []
    (worker.directory / "status.json").write_text(json.dumps({**status, "closed": True}))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="tells no start times")
def test_a_process_that_only_has_the_number_of_a_program_is_left_alone(worker):
    with subprocess.Popen(["sleep", "100"], start_new_session=True) as stranger:
        status = {"pid": stranger.pid, "pid_started": 1, "phase": "running", "closed": True}
        (worker.directory / "lock").touch()
        (worker.directory / "status.json").write_text(json.dumps(status))
        second_attempt(worker).finish("echo second", logs="logs/a2/w0")
        assert stranger.poll() is None
        stranger.kill()


def second_attempt(worker: Worker) -> Worker:
    later = Worker.__new__(Worker)
    later.home, later.server = worker.home, worker.server
    later.directory = worker.home / "digits-a1b2c3-a2"
    later.directory.mkdir()
    return later


def test_status_of_no_run_is_exit_1(worker):
    assert worker.agent("status").returncode == 1
