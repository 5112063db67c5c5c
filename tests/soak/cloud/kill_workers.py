"""kill -9 of the simulator while slices come and go: `kill_workers.py DIRECTORY ROUNDS SEED`.

A program of its own: whatever loses its parent becomes its child, so that nothing escapes the
count. Prints what was left behind, as one JSON object.
"""

import ctypes
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tpuctl.operations.local import local_cloud

SCENARIO = """
provisioning_delay_s: 0
deletion_delay_s: 0
update_delay_s: 0
"""
TYPES = ("v5litepod-4", "v5litepod-16")
"""A slice of one worker and one of four."""
PROGRAMS = "setsid sleep 3600 & nohup sh -c 'trap : TERM; while :; do sleep 1; done' &"
"""A startup-script: what lasts, and what does not listen."""
WHILE_STARTING = 0.2
"""How many of the kills come before the simulator is ready."""
LONGEST_LIFE_S = 0.4
END_S = 20.0
"""How long the kernel may take to give everything back."""
SUBREAPER = 36


@dataclass
class Counts:
    """What was left behind, and how long it took."""

    rounds: int = 0
    failed_restarts: int = 0
    processes: int = 0
    namespaces: int = 0
    mounts: int = 0
    links: int = 0
    directories: int = 0
    tracebacks: int = 0
    workers_at_most: int = 0
    gone_s: list[float] = field(default_factory=list)
    """From the kill until no process was left."""


def main(directory: str, rounds: str, seed: str) -> None:
    if ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0):
        raise OSError("prctl")
    draws, counts = random.Random(int(seed)), Counts()
    home = Path(directory)
    (home / "prompt.yaml").write_text(SCENARIO)
    machine = links_and_mounts()
    for _ in range(int(rounds)):
        live_and_die(home, draws, counts)
        links, mounts = links_and_mounts()
        counts.links += len(links - machine[0])
        counts.mounts += len(mounts - machine[1])
    counts.directories = directories_in_the_end(home)
    counts.tracebacks = (home / "stderr").read_text().count("Traceback")
    print(json.dumps(asdict(counts)))


def live_and_die(home: Path, draws: random.Random, counts: Counts) -> None:
    """One life of a simulator, and what is left of it."""
    process = start(home)
    if draws.random() < WHILE_STARTING:
        time.sleep(draws.uniform(0.0, 0.6))
    elif line := process.stdout.readline():
        use(json.loads(line), draws, counts.rounds)
    else:
        counts.failed_restarts += 1
    others = descendants()
    namespaces = {network_of(pid) for pid in others} - {network_of(os.getpid()), 0}
    counts.workers_at_most = max(counts.workers_at_most, len(namespaces) - 1)
    began = time.perf_counter()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    left = until_gone()
    counts.gone_s.append(round(time.perf_counter() - began, 3))
    counts.processes += len(left)
    counts.namespaces += len({network_of(int(pid)) for pid in all_processes()} & namespaces)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    counts.rounds += 1


def start(home: Path) -> "subprocess.Popen[str]":
    argv = ["serve", "--state-dir", str(home / "state"), "--isolation", "namespace", "--offline"]
    with (home / "stderr").open("ab") as errors:
        return subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "localsim",
                *argv,
                "--scenario",
                str(home / "prompt.yaml"),
            ],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )


def use(line: Mapping[str, Any], draws: random.Random, number: int) -> None:
    """Create, preempt and delete, and be somewhere in the middle of it at the end."""
    nodes = listed(line)
    for node in nodes[:-1]:
        delete(line, node)
    name = f"n{number}"
    body = {
        "acceleratorType": draws.choice(TYPES),
        "runtimeVersion": "v2-alpha-tpuv5-lite",
        "schedulingConfig": {"spot": True},
        "metadata": {"startup-script": PROGRAMS},
    }
    ask(line, "POST", f"/nodes?nodeId={name}", body)
    if draws.random() < 0.7:
        until(lambda: states(line).get(name) == "READY")
        act = draws.choice((preempt, delete, lambda *_: None))
        act(line, name)
    time.sleep(draws.uniform(0.0, LONGEST_LIFE_S))


def preempt(line: Mapping[str, Any], name: str) -> None:
    local_cloud.control_api(line).preempt(name, line["zone"], 0.0)


def delete(line: Mapping[str, Any], name: str) -> None:
    with suppress(urllib.error.HTTPError):  # it is still being created
        ask(line, "DELETE", f"/nodes/{name}")


def listed(line: Mapping[str, Any]) -> list[str]:
    return sorted(states(line))


def states(line: Mapping[str, Any]) -> dict[str, str]:
    """Node -> state."""
    found = ask(line, "GET", "/nodes").get("nodes", [])
    return {node["name"].rpartition("/")[2]: node["state"] for node in found}


def ask(line: Mapping[str, Any], verb: str, path: str, body: object = None) -> Any:
    url = f"{line['tpu_rest']}/v2/projects/{line['project']}/locations/{line['zone']}{path}"
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=verb)) as reply:
        return json.loads(reply.read())


def directories_in_the_end(home: Path) -> int:
    """Delete every node and stop in good order: how many directories of slices are there then."""
    process = start(home)
    line = json.loads(process.stdout.readline())
    until(lambda: not [delete(line, name) for name in listed(line)])
    until(lambda: not list((home / "state" / "slices").iterdir()))
    process.send_signal(signal.SIGTERM)
    process.communicate()
    left = [*(home / "state" / "slices").iterdir(), *(home / "state").glob("vpc.launcher")]
    return len(left) + len(until_gone())


def until(condition: Any) -> None:
    deadline = time.monotonic() + END_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(condition)
        time.sleep(0.05)


def until_gone() -> list[int]:
    """What still runs of all that was started from here, after a while."""
    deadline = time.monotonic() + END_S
    while (found := descendants()) and time.monotonic() < deadline:
        time.sleep(0.005)
    return found


def descendants() -> list[int]:
    """Every process below this one; the dead among its own children are buried."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    found = [os.getpid()]
    for pid in found:
        with suppress(OSError):
            for children in Path("/proc", str(pid), "task").glob("*/children"):
                found += map(int, children.read_text().split())
    return found[1:]


def all_processes() -> list[str]:
    return [path.name for path in Path("/proc").iterdir() if path.name.isdigit()]


def network_of(pid: int) -> int:
    """The network namespace of a process, 0 when it has ended."""
    try:
        return Path(f"/proc/{pid}/ns/net").stat().st_ino
    except OSError:
        return 0


def links_and_mounts() -> tuple[set[str], set[str]]:
    """The machine's own."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return {name for _, name in socket.if_nameindex()}, set(mounts)


if __name__ == "__main__":
    main(*sys.argv[1:])
