"""What the agent of a job takes of a worker: memory, processor, and how many lines it carries."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from unit.agent.agent_worker import Worker, working

from benchmarks.measure import keep, peak_resident, resident, shared_out

pytestmark = pytest.mark.benchmark

SETTLING_S = 17.0
"""Beyond the first upload."""
IDLE_S = 60.0
LINES_PER_S = 100_000
PRINTING_S = 40
PRINTER = """\
import os, time
began = time.monotonic()
for hundredth in range({seconds} * 100):
    first = hundredth * 1000
    lines = ["%09d %s\\n" % (number, "x" * 90) for number in range(first, first + 1000)]
    rest = "".join(lines).encode()
    while rest:
        rest = rest[os.write(1, rest):]
    time.sleep(max(0.0, began + hundredth / 100 - time.monotonic()))
print("took %.2f" % (time.monotonic() - began))
"""


@pytest.fixture
def idle_worker(tmp_path):
    with working(tmp_path) as worker:
        yield worker


@pytest.mark.timeout(300)
def test_what_an_idle_agent_takes(idle_worker):
    worker = idle_worker
    agent = worker.begin("echo up; exec sleep 1000", {"KEY": "hunter22"}, setup="echo set up")
    with subprocess.Popen(
        worker.argv("watch"), env=worker.environ, stdout=subprocess.DEVNULL
    ) as watch:
        pids = {"agent": agent["agent_pid"], "watch": watch.pid}
        time.sleep(SETTLING_S)
        before = {name: processor_s(pid) for name, pid in pids.items()}
        time.sleep(IDLE_S)
        used = {name: processor_s(pid) - before[name] for name, pid in pids.items()}
        memory = {f"{name}_mib": round(resident(pid), 1) for name, pid in pids.items()}
        memory["together_mib"] = round(sum(map(resident, pids.values())), 1)
        memory["together_pss_mib"] = round(sum(map(shared_out, pids.values())), 1)
        shares = {f"{name}_core_percent": round(100 * used[name] / IDLE_S, 3) for name in used}
        worker.agent("stop", "--grace", "0")
    keep("agent_idle", "at most 24 MiB and 1 % of a core, its watch included", **memory, **shares)
    assert worker.server.uploads[0] == "logs/a1/w0/000000000000"


@pytest.mark.timeout(300)
def test_a_hundred_thousand_lines_a_second_arrive(idle_worker):
    worker = idle_worker
    program = worker.home / "printer.py"
    program.write_text(PRINTER.format(seconds=PRINTING_S))
    agent = worker.begin(f"exec {sys.executable} {program}")["agent_pid"]
    at_most = used_s = disk_bytes = 0.0
    while worker.status().get("phase") == "running":
        at_most, used_s = peak_resident(agent) or at_most, processor_s(agent)
        disk_bytes = max(disk_bytes, on_disk(worker))
        time.sleep(0.2)
    ended_at = time.monotonic()
    worker.until(closed=True)
    uploading_s = time.monotonic() - ended_at
    count, took = in_order(stored(worker))
    keep(
        "agent_lines", "100,000 lines/s without loss",
        lines=count, lost=PRINTING_S * LINES_PER_S - count, took_s=took,
        core_percent=round(100 * used_s / PRINTING_S, 1), peak_mib=round(at_most, 1),
        disk_mib_at_most=round(disk_bytes / 2**20), last_upload_s=round(uploading_s, 2),
        segments=len(worker.server.uploads) - 1,
    )  # fmt: skip
    assert count == PRINTING_S * LINES_PER_S


def on_disk(worker: Worker) -> int:
    """How much room the log takes on the worker."""
    found = 0
    for path in (worker.directory / "log").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it is in the bucket
            found += path.stat().st_size
    return found


def stored(worker: Worker) -> Iterator[bytes]:
    """The lines in the bucket; segment follows segment, without a gap."""
    end = 0
    for entry in sorted(worker.server.store.list("logs/"), key=lambda each: each.key):
        assert int(entry.key[-12:]) == end
        end += entry.size_bytes
        yield from worker.server.store.get_range(entry.key).splitlines()


def in_order(lines: Iterator[bytes]) -> tuple[int, float]:
    """How many numbered lines came, each after the one before it, and for how long they did."""
    for expected, line in enumerate(lines):
        text = line.partition(b" ")[2]
        if text.startswith(b"took"):
            return expected, float(text.split()[1])
        assert int(text[:9]) == expected
    raise AssertionError("the last line is missing")


def processor_s(pid: int) -> float:
    """Seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
