"""What a local cloud needs of this machine, and the fix of each line."""

import errno
import json
import shlex
import sys
from pathlib import Path

import pytest

from tpuctl import __version__
from tpuctl.models.health import HealthState
from tpuctl.operations.local import local_cloud, local_health

GIB = 1 << 30
MEMINFO = "MemTotal:       32000000 kB\nMemAvailable:   {} kB\nVmallocUsed:  0 kB\n"


@pytest.fixture
def proc(tmp_path, monkeypatch) -> Path:
    """A /proc of our own."""
    monkeypatch.setattr(local_health, "PROC", tmp_path)
    monkeypatch.setattr(sys, "platform", "linux")
    return tmp_path


def put_setting(proc: Path, name: str, value: str) -> None:
    path = proc / "sys" / name.replace(".", "/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{value}\n")


@pytest.mark.parametrize(("name", "forbidding", "allowing"), local_health.SYSCTLS)
def test_a_kernel_that_forbids_namespaces_is_mended_by_the_printed_fix(
    proc, tmp_path, name, forbidding, allowing
):
    put_setting(proc, name, forbidding)
    (line,) = local_health.ask_isolation(tmp_path / "home", "local")
    assert line.state == HealthState.WARN
    assert line.evidence.endswith(f": {name}")
    *command, assignment = shlex.split(line.fix)
    assert command == ["sudo", "sysctl", "-w"]
    put_setting(proc, *assignment.split("="))
    assert assignment == f"{name}={allowing}"
    (line,) = local_health.ask_isolation(tmp_path / "home", "local")
    assert line.state == HealthState.PASS


def test_a_cloud_that_was_started_before_namespaces_were_allowed(proc):
    running = {"mode": "process", "mode_reason": "the kernel allows no namespaces here"}
    line = local_health.isolation_line(running, None, "lab")
    assert (line.state, line.fix) == (HealthState.WARN, "tpuctl local down --name lab")
    assert local_health.isolation_line({}, None, "lab").state == HealthState.PASS
    wanted = local_health.isolation_line({"mode": "process"}, None, "lab")
    assert (wanted.state, wanted.evidence) == (HealthState.PASS, "mode process")


@pytest.mark.parametrize(
    ("available_bytes", "state", "exit_code"),
    [
        (GIB, HealthState.PASS, 0),
        (GIB - 1, HealthState.WARN, 0),
        (GIB // 4 - 1, HealthState.FAIL, 12),
    ],
)
def test_memory(available_bytes, state, exit_code):
    line = local_health.memory_line(available_bytes)
    assert (line.state, line.exit_code) == (state, exit_code)
    assert (line.fix is None) == (state == HealthState.PASS)


def test_memory_is_what_programs_can_still_have(proc, tmp_path):
    (proc / "meminfo").write_text(MEMINFO.format(2_000_000))
    (line,) = local_health.ask_memory(tmp_path, "local")
    assert (line.state, line.evidence) == (HealthState.PASS, "1.9 GiB available")


def test_loopback_that_is_down(monkeypatch, tmp_path):
    is_up = False
    create = local_health.socket.create_server

    def create_server(address):
        if not is_up:
            raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")
        return create(address)

    monkeypatch.setattr(local_health.socket, "create_server", create_server)
    (line,) = local_health.ask_loopback(tmp_path, "local")
    assert (line.state, line.fix, line.exit_code) == (
        HealthState.FAIL, "sudo ip link set lo up", 60,
    )  # fmt: skip
    is_up = True
    (line,) = local_health.ask_loopback(tmp_path, "local")
    assert line.state == HealthState.PASS


def test_a_directory_that_no_simulator_made_is_moved_away_by_the_printed_fix(tmp_path):
    path = tmp_path / "local" / "local"
    assert state_of(tmp_path) == HealthState.PASS
    path.mkdir(parents=True)
    assert state_of(tmp_path) == HealthState.PASS
    (path / "notes.txt").touch()
    (line,) = local_health.ask_state(tmp_path, "local")
    assert (line.state, line.fix, line.exit_code) == (
        HealthState.FAIL, f"mv {path} {path}.bad", 12,
    )  # fmt: skip
    path.rename(f"{path}.bad")
    assert state_of(tmp_path) == HealthState.PASS


def state_of(home: Path) -> HealthState:
    (line,) = local_health.ask_state(home, "local")
    return line.state


def test_records_that_cannot_be_read_are_a_warning(monkeypatch, tmp_path):
    path = tmp_path / "local" / "local"
    path.mkdir(parents=True)
    (path / local_cloud.MARKER).write_text(json.dumps({"schema": 1}))
    bad = {"table": "nodes", "name": "n1", "cause": "it is newer"}
    line = {"name": "local", "pid": 4711, "unreadable": [bad]}
    monkeypatch.setattr(local_cloud, "endpoint_line", lambda *_: line)
    (found,) = local_health.ask_state(tmp_path, "local")
    assert (found.state, found.fix) == (HealthState.WARN, "tpuctl local reset")
    line["unreadable"] = []
    assert state_of(tmp_path) == HealthState.PASS


def test_a_cloud_of_an_older_version_is_ended_by_the_printed_fix(monkeypatch, tmp_path):
    old = {"name": "local", "pid": 4711, "project": "p"}
    monkeypatch.setattr(local_cloud, "endpoint_line", lambda *_: old)
    (line,) = local_health.ask_cloud(tmp_path, "local")
    assert (line.state, line.fix, line.exit_code) == (HealthState.FAIL, "tpuctl local down", 12)
    monkeypatch.setattr(local_cloud, "endpoint_line", lambda *_: None)
    (line,) = local_health.ask_cloud(tmp_path, "local")
    assert line.state == HealthState.PASS


def test_a_cloud_that_runs_on_in_the_version_before_an_upgrade(monkeypatch, tmp_path):
    path = tmp_path / "local" / "local"
    path.mkdir(parents=True)
    monkeypatch.setattr(local_cloud, "endpoint_line", lambda *_: {"name": "local", "pid": 4711})
    monkeypatch.setattr(local_cloud, "context_of", lambda _line: None)
    for version, state in (("0.0.9", HealthState.WARN), (__version__, HealthState.PASS)):
        (path / "serving.json").write_text(json.dumps({"arguments": [], "version": version}))
        (line,) = local_health.ask_cloud(tmp_path, "local")
        assert line.state == state
        assert version in line.evidence
