"""The program `ray` on a worker: where it is, which version, how it is started. Python 3.8.

Resources, pod type, slice name and topology are what Ray itself finds: nothing of it is told.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys

from tpuctl.agent.job.state import rundir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

ASK_S = 120.0
DASHBOARD_PORT = 8265
STARTED = b"Ray runtime started"
"""`ray start` prints it when its node is in the cluster's table (Ray 2.60, scripts.py, node.py)."""
METADATA = "from importlib.metadata import version; print(version('ray'))"
HAS_GRPC = "from importlib.util import find_spec; raise SystemExit(find_spec('grpc') is None)"
"""Ray takes a port for its client server only where gRPC is installed (Ray 2.60, parameter.py)."""
DEFAULTS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # The whole cluster ends at once: no node has to move its work to others first.
    "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
}


def check(directory: str) -> int:
    """Run the stage `ray`: say in one line what is missing, and return 1, or return 0."""
    complaint = missing(directory, rundir.config(directory)["ray"]["version"])
    if complaint:
        sys.stderr.write(f"tpuctl: {complaint}\n")
    return 1 if complaint else 0


def missing(directory: str, wanted: str | None) -> str:
    """Return what this worker lacks of the Ray that is wanted; empty when it has it."""
    package = f"ray[default]=={wanted}" if wanted else "ray[default]"
    advice = f'put pip install "{package}" into setup'
    program = find(directory)
    if program is None:
        return f"there is no Ray on this worker: {advice}"
    found = version(program) if wanted else None
    if found == wanted:
        return ""
    return f"this worker has Ray {found}, and the job wants {wanted}: {advice}"


def find(directory: str) -> str | None:
    """Return the `ray` of a run: of the workdir's .venv, of PATH, or of `pip install --user`."""
    places = (
        os.path.join(directory, "workdir", ".venv", "bin"),
        os.environ.get("PATH", os.defpath),
        os.path.expanduser("~/.local/bin"),
    )
    return shutil.which("ray", path=os.pathsep.join(places))


def version(program: str) -> str:
    """Return the version that a `ray` is of, or why it says none."""
    python = interpreter(program)
    # `ray --version` imports all of Ray: seconds of the processor.
    argv = [python, "-c", METADATA] if python else [program, "--version"]
    try:
        asked = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False, timeout=ASK_S
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"that does not start ({error})"
    words = asked.stdout.decode("utf-8", "replace").split()
    return words[-1] if words and asked.returncode == 0 else f"that fails ({asked.returncode})"


def interpreter(program: str) -> str | None:
    """Return the Python in the first line of a script, None where another program is named."""
    with contextlib.suppress(OSError), open(program, "rb") as file:
        mark, _, path = file.readline().decode("utf-8", "replace").strip().partition("#!")
        is_python = not mark and os.path.basename(path).startswith("python")
        return path if is_python and " " not in path else None
    return None


def serves_clients(program: str) -> bool:
    """Whether this Ray has what its client server needs, which `pip install ray` leaves out."""
    python = interpreter(program)
    if python is None:
        return True
    asked = subprocess.run([python, "-c", HAS_GRPC], stdin=subprocess.DEVNULL, check=False)
    return asked.returncode == 0


def head_argv(program: str, port: int, dashboard_port: int | None) -> list[str]:
    """Return the options of the cluster's first host."""
    return [
        "--head", f"--port={port}",
        *([f"--ray-client-server-port={free_port()}"] if serves_clients(program) else []),
        f"--include-dashboard={'true' if dashboard_port else 'false'}",
        *([f"--dashboard-port={dashboard_port}"] if dashboard_port else []),
        "--dashboard-host=127.0.0.1",
    ]  # fmt: skip


def start_argv(program: str, address: str, temporary: str, options: list[str]) -> list[str]:
    """Return the command that is a host of the cluster until it is ended.

    Ports are whichever are free: several workers may share a machine.
    """
    return [
        program, "start", *options, "--block", "--log-color=false",
        f"--node-ip-address={address}", f"--temp-dir={temporary}",
        "--dashboard-agent-listen-port=0", "--min-worker-port=0", "--max-worker-port=0",
    ]  # fmt: skip


def start_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of Ray's processes: the program's, and where it says nothing ours."""
    return {**DEFAULTS, **environ}


def free_port(wanted: int = 0) -> int:
    """Return a port that is free on every address of this host: `wanted`, if that one is."""
    with socket.socket() as probe:
        try:
            probe.bind(("", wanted))
        except OSError:
            return free_port()
        return int(probe.getsockname()[1])


def own_and_head(own: str, head: str) -> tuple[str, str]:
    """Return the addresses of this worker and of worker 0 as programs here can use them.

    Where a worker's address is none of this host's, its workers share the host, and each has the
    address on loopback that ends alike: 127.128.0.2 for 10.128.0.2.
    """
    with socket.socket() as probe:
        try:
            probe.bind((own, 0))
        except OSError:
            return on_loopback(own), on_loopback(head)
    return own, head


def on_loopback(address: str) -> str:
    """Return the address of 127.0.0.0/8 with the same last three numbers."""
    return f"127.{address.partition('.')[2]}"
