"""Checks of what a local cloud needs of this machine, and of the one that runs, for the doctor."""

import json
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

from tpuctl import __version__
from tpuctl.byte_size import size_text
from tpuctl.config import DEFAULT_CONTEXT
from tpuctl.errors import LocalIOError, PreconditionError
from tpuctl.models.health import HealthCheck, HealthState
from tpuctl.operations.local import local_cloud

CLOUD, ISOLATION, MEMORY = "local cloud", "isolation of workers", "memory"
LOOPBACK, STATE = "loopback", "state of the local cloud"
GIB = 1 << 30
LOW_MEMORY_BYTES, NO_MEMORY_BYTES = GIB, GIB // 4
"""A simulator and a few workers with programs of their own; a simulator alone."""
PORTS = 10
"""As many as a simulator listens on, with TLS too."""
PROC = Path("/proc")
SYSCTLS = (
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    ("user.max_user_namespaces", "0", "10000"),
)
"""Name, the value that forbids workers hosts of their own, one that allows them."""


class LocalCheck(NamedTuple):
    """A row of the table of these checks."""

    name: str
    ask: Callable[[Path, str], Iterator[HealthCheck]]
    """From TPUCTL_HOME and the name of a local cloud to lines."""


def ask_cloud(home: Path, name: str) -> Iterator[HealthCheck]:
    """Whether the local cloud runs, in a version that this tpuctl can use."""
    line = local_cloud.endpoint_line(home, name)
    if line is None:
        evidence = f"{name!r} does not run; the first command that needs it starts it"
        yield HealthCheck(CLOUD, HealthState.PASS, evidence)
        return
    try:
        local_cloud.context_of(line)
    except PreconditionError as error:
        fix = f"tpuctl local down{_name_option(name)}"
        yield HealthCheck(CLOUD, HealthState.FAIL, str(error), fix, error=error)
        return
    version = local_cloud.served_version(home, name)
    if version != __version__:
        fix = f"tpuctl local down{_name_option(name)}"
        evidence = f"{name!r} runs in version {version or 'unknown'}, and this is {__version__}"
        yield HealthCheck(CLOUD, HealthState.WARN, evidence, fix)
        return
    evidence = f"{name!r} runs (pid {line['pid']}, version {version})"
    yield HealthCheck(CLOUD, HealthState.PASS, evidence)


def ask_isolation(home: Path, name: str) -> Iterator[HealthCheck]:
    """Whether workers are hosts of their own, or what would allow it."""
    line = local_cloud.endpoint_line(home, name) or {}
    yield isolation_line(line, _forbidding_sysctl(PROC), name)


def isolation_line(
    line: Mapping[str, Any], forbidding: tuple[str, str] | None, name: str
) -> HealthCheck:
    """The line for an endpoint line, empty where nothing runs, and a setting of the kernel.

    Workers are processes of this machine where Linux forbids more, or where somebody asked for it.
    """
    if forbidding is not None:
        setting, value = forbidding
        evidence = f"the kernel forbids workers that are hosts of their own: {setting}"
        fix = f"sudo sysctl -w {setting}={value}"
        return HealthCheck(ISOLATION, HealthState.WARN, evidence, fix)
    if sys.platform != "linux":
        evidence = "workers are processes of this machine: hosts of their own need Linux"
        return HealthCheck(ISOLATION, HealthState.PASS, evidence)
    if not line:
        evidence = "the kernel's settings allow workers that are hosts of their own"
        return HealthCheck(ISOLATION, HealthState.PASS, evidence)
    if reason := line.get("mode_reason"):
        fix = f"tpuctl local down{_name_option(name)}"
        evidence = f"it was started with workers as processes of this machine: {reason}"
        return HealthCheck(ISOLATION, HealthState.WARN, evidence, fix)
    return HealthCheck(ISOLATION, HealthState.PASS, f"mode {line['mode']}")


def ask_memory(_home: Path, _name: str) -> Iterator[HealthCheck]:
    """Whether there is memory for a simulator and its workers (Linux)."""
    path = PROC / "meminfo"
    if path.is_file():
        yield memory_line(available_memory_bytes(path.read_text("ascii")))


def memory_line(available_bytes: int) -> HealthCheck:
    """The line for so much memory that programs can still have."""
    evidence = f"{size_text(available_bytes)} available"
    if available_bytes < NO_MEMORY_BYTES:
        state = HealthState.FAIL
    elif available_bytes < LOW_MEMORY_BYTES:
        state = HealthState.WARN
    else:
        return HealthCheck(MEMORY, HealthState.PASS, evidence)
    wanted = f"{evidence}; a simulator and a few workers take {size_text(LOW_MEMORY_BYTES)}"
    return HealthCheck(MEMORY, state, wanted, "ps -eo rss,pid,args --sort=-rss")


def available_memory_bytes(meminfo: str) -> int:
    """MemAvailable of /proc/meminfo."""
    fields = dict(line.split(":", 1) for line in meminfo.splitlines() if ":" in line)
    return int(fields["MemAvailable"].split()[0]) * 1024


def ask_loopback(_home: Path, _name: str) -> Iterator[HealthCheck]:
    """Whether there are free ports on loopback."""
    opened: list[socket.socket] = []
    try:
        for _ in range(PORTS):
            opened.append(socket.create_server(("127.0.0.1", 0)))
        yield HealthCheck(LOOPBACK, HealthState.PASS, f"{PORTS} ports of 127.0.0.1 are free")
    except OSError as error:
        evidence = f"cannot listen on 127.0.0.1: {error.strerror}"
        failure = LocalIOError(evidence)
        fix = "sudo ip link set lo up"
        yield HealthCheck(LOOPBACK, HealthState.FAIL, evidence, fix, error=failure)
    finally:
        for each in opened:
            each.close()


def ask_state(home: Path, name: str) -> Iterator[HealthCheck]:
    """Whether the directory of the cloud's state is one, and all of it can be read."""
    path = local_cloud.state_directory(home, name)
    line = local_cloud.endpoint_line(home, name)
    if not path.exists():
        yield HealthCheck(STATE, HealthState.PASS, "there is none yet")
    elif line is not None and line.get("unreadable"):
        fix = f"tpuctl local reset{_name_option(name)}"
        yield HealthCheck(STATE, HealthState.WARN, local_cloud.unreadable_note(line), fix)
    elif line is None and not _is_state(path):
        evidence = f"{path} has no readable {local_cloud.MARKER}"
        error = PreconditionError(evidence)
        fix = f"mv {quote(str(path))} {quote(f'{path}.bad')}"
        yield HealthCheck(STATE, HealthState.FAIL, evidence, fix, error=error)
    else:
        yield HealthCheck(STATE, HealthState.PASS, str(path))


def _is_state(path: Path) -> bool:
    """Whether a directory is empty, but for its lock, or has the marker of a simulator."""
    if not {entry.name for entry in path.iterdir()} - {"lock"}:
        return True
    try:
        json.loads((path / local_cloud.MARKER).read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return True


def _forbidding_sysctl(proc: Path) -> tuple[str, str] | None:
    """The first setting of the kernel that forbids namespaces, and the value that allows them."""
    for name, forbidding, allowing in SYSCTLS:
        setting = proc / "sys" / name.replace(".", "/")
        if setting.is_file() and setting.read_text("ascii").strip() == forbidding:
            return name, allowing
    return None


def _name_option(name: str) -> str:
    return "" if name == DEFAULT_CONTEXT else f" --name {name}"


CHECKS = (
    LocalCheck(CLOUD, ask_cloud),
    LocalCheck(STATE, ask_state),
    LocalCheck(ISOLATION, ask_isolation),
    LocalCheck(MEMORY, ask_memory),
    LocalCheck(LOOPBACK, ask_loopback),
)
