"""`ray`: a cluster per attempt, with a program on the workers that stands in for Ray's own."""

import io
import json
import os
import signal
import sys
import tarfile
from pathlib import Path

import pytest
from unit.agent.agent_worker import Worker
from unit.agent.bucket_server import serving

from tpuctl.agent.job.ray import ray_program
from tpuctl.agent.job.state import processes

STANDIN = Path(__file__).with_name("standin_ray.py")
NETWORK = f"10.{os.getpid() // 256 % 256}.{os.getpid() % 256}"
"""Addresses that no other process of these tests uses, and that are none of this machine's."""


class RayWorkers:
    """Workers of one job that share this machine, and what their `ray` was asked."""

    def __init__(self, directory: Path, state: Path, server) -> None:
        self.directory, self.state, self.server = directory, state, server
        self.workers: list[Worker] = []

    def begin(self, run: str, count: int = 2, attempt: int = 1, **ray) -> list[Worker]:
        """Start the run on all workers; each gets as far as it gets."""
        self.workers = [
            Worker(self.directory / f"w{number}", self.server, attempt) for number in range(count)
        ]
        for number, worker in enumerate(self.workers):
            ids = f"a{attempt}/w{number}"
            cluster = {
                "version": None, "dashboard": False, "hosts": count, "head": f"{NETWORK}.2",
                "address": f"{NETWORK}.{number + 2}", "join_s": 15.0, "logs": f"ray/{ids}", **ray,
            }  # fmt: skip
            assert worker.order("start") == 0
            worker.run(
                run, {"HF": "hunter22"}, worker_id=number, env={"TPUCTL_WORKER_ID": str(number)},
                ray=cluster, logs=f"logs/{ids}", final=f"status/{ids}",
            )  # fmt: skip
        return self.workers

    def ended(self) -> list[tuple]:
        found = [worker.until(closed=True) for worker in self.workers]
        return [(each["stage"], each["exit_status"], each["signal"]) for each in found]

    @property
    def starts(self) -> list[list[str]]:
        lines = (self.state / "calls").read_text().splitlines()
        return [call for call in map(json.loads, lines) if call[0] == "start"]

    def pids(self, number: int) -> list[int]:
        """Of the stand-in on a worker, and of what it has started."""
        text = (self.state / f"127.{NETWORK.partition('.')[2]}.{number + 2}").read_text()
        return [int(word) for word in text.split()]

    def logs(self, number: int) -> dict[str, bytes]:
        packed = self.server.store.get_range(f"ray/a1/w{number}")
        with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
            return {each.name: tar.extractfile(each).read() for each in tar}


@pytest.fixture
def gang(tmp_path, monkeypatch):
    programs, state = tmp_path / "bin", tmp_path / "ray"
    programs.mkdir()
    state.mkdir()
    ray = programs / "ray"
    ray.write_text(f'#!/bin/sh\nexec {sys.executable} -S {STANDIN} {state} "$@"\n')
    ray.chmod(0o755)
    (state / "version").write_text("2.60.0")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    with serving(tmp_path / "bucket") as server:
        gang = RayWorkers(tmp_path / "home", state, server)
        try:
            yield gang
        finally:
            for worker in gang.workers:
                worker.close()


def on_loopback(number: int) -> str:
    return f"127.{NETWORK.partition('.')[2]}.{number + 2}"


def test_the_driver_runs_once_in_a_cluster_of_all_workers_and_its_status_is_the_job_s(gang):
    head, other = gang.begin(
        'echo "driver $TPUCTL_WORKER_ID at $RAY_ADDRESS"', version="2.60.0", dashboard=True
    )
    assert gang.ended() == [("run", 0, None)] * 2
    *_, joined, dashboard, driver = head.text().splitlines()
    assert joined.startswith("tpuctl: Ray: 2 hosts joined the cluster at 127.")
    assert dashboard.startswith("tpuctl: Ray: its dashboard is at port ")
    assert other.text() == ""
    (first, second) = sorted(gang.starts, key=lambda call: "--head" not in call)
    port = next(word for word in first if word.startswith("--port=")).partition("=")[2]
    where = f"{on_loopback(0)}:{port}"
    assert driver == f"driver 0 at {where}"
    assert f"--address={where}" in second
    assert {"--block", f"--node-ip-address={on_loopback(1)}"} <= set(second)
    assert {"--include-dashboard=true", "--dashboard-host=127.0.0.1"} <= set(first)
    assert not any("resources" in word for call in gang.starts for word in call)
    left = [pid for number in (0, 1) for pid in gang.pids(number) if processes.is_living(pid)]
    assert left == []
    kept = [word.partition("=")[2] for call in gang.starts for word in call if "temp-dir" in word]
    assert [path for path in kept if Path(path).exists()] == []
    assert gang.logs(1) == {"raylet.out": f"{on_loopback(1)} knows ***\n".encode()}


@pytest.mark.soak
def test_a_driver_that_a_signal_ends_is_told_so_and_the_other_workers_end_well(gang):
    gang.begin("kill -9 $$")
    assert gang.ended() == [("run", None, signal.SIGKILL), ("run", 0, None)]
    assert all("--include-dashboard=true" not in call for call in gang.starts)


def test_sigterm_is_for_the_driver_which_still_has_its_cluster(gang):
    trap = 'trap "ls -d /proc/$(cut -d\\  -f1 $STATE) && exit 3" TERM'
    state = gang.state / on_loopback(0)
    run = f"STATE={state}\n{trap}\necho up; while :; do sleep 0.05; done"
    (head,) = gang.begin(run, count=1)
    head.until(phase="running")
    head.until_printed("up")
    assert head.order("stop", "--grace", "10") == 0
    assert gang.ended() == [("run", 3, None)]
    assert head.text().splitlines()[-1] == f"/proc/{gang.pids(0)[0]}"


def test_a_host_that_never_joins_is_named(gang):
    (head,) = gang.begin("echo never", count=1, hosts=2, join_s=3.0)
    assert gang.ended() == [("run", 1, None)]
    assert head.text() == (
        "--------\nRay runtime started.\n--------\n"
        "tpuctl: Ray: not in the cluster within 3 s: worker 1"
    )


@pytest.mark.soak
def test_a_host_whose_ray_does_not_start_says_why(gang):
    (gang.state / "broken").write_text(on_loopback(0))
    (head,) = gang.begin("echo never", count=1)
    assert gang.ended() == [("run", 1, None)]
    assert head.text() == (
        "ValueError: no port is free\ntpuctl: Ray: it does not start on this worker"
    )


@pytest.mark.soak
@pytest.mark.parametrize("number", [0, 1])
def test_ray_that_dies_under_the_driver_ends_its_worker(gang, number):
    head, *_ = gang.begin("echo up; exec sleep 600", count=number + 1)
    head.until(phase="running")
    head.until_printed("up")
    os.kill(gang.pids(number)[0], signal.SIGKILL)
    ended = gang.workers[number].until(closed=True)
    assert (ended["stage"], ended["exit_status"]) == ("run", 1)
    assert "tpuctl: Ray: it ended on this worker" in ended["last_lines"][-1]


@pytest.mark.soak
def test_a_worker_that_loses_worker_0_leaves_its_cluster(gang):
    head, other = gang.begin("echo up; exec sleep 600")
    head.until(phase="running")
    head.until_printed("up")
    os.killpg(head.status()["pid"], signal.SIGKILL)
    assert gang.ended() == [("run", None, signal.SIGKILL), ("run", 1, None)]
    assert other.text().endswith("tpuctl: Ray: worker 0 is gone, and the cluster with it")
    assert not any(processes.is_living(pid) for number in (0, 1) for pid in gang.pids(number))


def test_another_ray_or_none_is_told_in_one_line(gang, tmp_path, monkeypatch):
    advice = 'put pip install "ray[default]==2.61.0" into setup'
    assert ray_program.missing(str(tmp_path), "2.60.0") == ""
    assert ray_program.missing(str(tmp_path), "2.61.0") == (
        f"this worker has Ray 2.60.0, and the job wants 2.61.0: {advice}"
    )
    (tmp_path / "bin" / "ray").write_text(f"#!{sys.executable}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray_program, "METADATA", "print('2.61.0')")
        assert ray_program.missing(str(tmp_path), "2.61.0") == ""
    monkeypatch.setenv("PATH", "/nowhere")
    assert (
        ray_program.missing(str(tmp_path), "2.61.0") == f"there is no Ray on this worker: {advice}"
    )
    venv = tmp_path / "workdir" / ".venv" / "bin"
    venv.mkdir(parents=True)
    (venv / "ray").symlink_to(tmp_path / "bin" / "ray")
    assert ray_program.missing(str(tmp_path), None) == ""


def test_ray_without_grpc_is_not_asked_to_serve_clients(tmp_path):
    bare, ray = tmp_path / "python3-bare", tmp_path / "ray"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    asked = {}
    for python in (bare, sys.executable):
        ray.write_text(f"#!{python}\n")
        argv = ray_program.head_argv(str(ray), 6379, None)
        asked[python] = any(word.startswith("--ray-client-server-port=") for word in argv)
    assert asked == {bare: False, sys.executable: True}


@pytest.mark.soak
def test_another_ray_ends_the_run(gang):
    (worker,) = gang.begin("echo never", count=1, version="2.61.0")
    assert gang.ended() == [("ray", 1, None)]
    assert worker.text().startswith("tpuctl: this worker has Ray 2.60.0, and the job wants 2.61.0:")


@pytest.mark.soak
def test_what_an_attempt_that_was_killed_has_left_is_gone_before_the_next(gang):
    (worker,) = gang.begin("echo up; exec sleep 600", count=1)
    worker.until(phase="running")
    worker.until_printed("up")
    kept = (worker.directory / "ray").resolve()
    os.kill(worker.status()["agent_pid"], signal.SIGKILL)
    first, pids = worker, gang.pids(0)
    (worker,) = gang.begin("true", count=1, attempt=2)
    assert gang.ended() == [("run", 0, None)]
    assert not kept.exists()
    assert not any(map(processes.is_living, pids))
    assert first.errors() == ""
