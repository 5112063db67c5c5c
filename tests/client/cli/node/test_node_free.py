"""`tpuctl node free`: who holds the chips of which worker, and an end to it."""

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from client.cli.node.four_workers import on_workers
from client.cli.requests.own_slice import own_slice
from tpuctl.metrics.sample_history import SampleHistory
from tpuctl.metrics.samples import Sample, WorkerSamples
from tpuctl.operations.workers import chip_holders

HOLD = """
import fcntl, os, signal, sys, time
if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
lock = open(os.environ["TMPDIR"] + "/libtpu_lockfile", "w")
fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("held", flush=True)
time.sleep(600)
"""
FREE = {"state": "FREE", "ended": [], "killed": [], "locks_removed": [], "error": None}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """`tpuctl` with one slice of four workers that all tests of this file share."""
    yield from own_slice(tmp_path_factory.mktemp("home"), "process")


@pytest.fixture(scope="module")
def locks(shared):
    """Where libtpu's lock of each worker is; a directory of this machine."""
    places = on_workers(shared, 'echo "$TMPDIR"')
    return [Path(place.strip()) / "libtpu_lockfile" for place in places]


@pytest.fixture
def hold(locks, tmp_path):
    """`hold(worker, *argv)` starts a program that holds that worker's chips."""
    started = []
    (tmp_path / "hold.py").write_text(HOLD)

    def start(worker, *argv, **environ):
        process = subprocess.Popen(
            [sys.executable, "hold.py", *argv],
            cwd=tmp_path,
            env={"TMPDIR": str(locks[worker].parent), **environ},
            stdout=subprocess.PIPE,
        )
        started.append(process)
        assert process.stdout.readline() == b"held\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
    for path in locks:
        path.unlink(missing_ok=True)


def test_holders_are_named_and_ended(shared, hold, locks):
    train, serve = hold(1, "train"), hold(3, "serve", TPUCTL_JOB="digits-1")
    result = shared("node", "free", "n1", "--yes", "-o", "json")
    assert result.code == 0, result.err
    assert result.json == [
        {"worker": 0, **FREE},
        {"worker": 1, **FREE, "ended": [train.pid], "locks_removed": [str(locks[1])]},
        {"worker": 2, **FREE},
        {"worker": 3, **FREE, "ended": [serve.pid], "locks_removed": [str(locks[3])]},
    ]
    one, three = result.err.splitlines()
    assert one.startswith(f"worker 1: pid {train.pid} of ")
    assert one.endswith("hold.py train")
    assert three.endswith("serve, job digits-1: better end it with: tpuctl job cancel digits-1")
    assert (train.wait(), serve.wait()) == (-15, -15)


def test_nothing_is_ended_before_somebody_said_yes(shared, hold, locks):
    train = hold(2)
    result = shared("node", "free", "n1", "--worker", "1-2")
    assert (result.code, result.out) == (80, "")
    assert result.err.splitlines()[-2:] == [
        "error: not confirmed, as stdin is not a terminal: "
        "End this process on node 'n1', worker 2, in context 'local'",
        "hint: add --yes",
    ]
    assert train.poll() is None
    assert locks[2].exists()


def test_only_the_workers_that_are_named_are_freed(shared, hold):
    zero, one = hold(0), hold(1)
    assert shared("node", "free", "n1", "--worker", "1", "--yes").code == 0
    assert one.wait() == -15
    assert zero.poll() is None


def test_a_program_that_does_not_go_is_killed(shared, hold, monkeypatch):
    monkeypatch.setattr(chip_holders, "GRACE_S", 0.2)
    process = hold(0, "stubborn")
    result = shared("node", "free", "n1", "--worker", "0", "--yes", "-o", "json")
    assert [(row["ended"], row["killed"]) for row in result.json] == [([], [process.pid])]
    assert process.wait() == -9


def test_a_lock_that_nobody_holds_is_removed_without_a_question(shared, locks):
    locks[2].touch()
    result = shared("node", "free", "n1")
    assert (result.code, locks[2].exists()) == (0, False)
    assert result.rows[2] == ["2", "FREE", "-", "-", str(locks[2]), "-"]
    assert result.err == (
        f"worker 2: {locks[2]}: left by a program that is gone\n"
        "nobody holds the chips of node 'n1'\n"
    )


def test_where_nobody_holds_them_there_is_nothing_to_do(shared):
    result = shared("node", "free", "n1", "-o", "json")
    assert (result.code, result.json) == (0, [{"worker": n, **FREE} for n in range(4)])
    assert result.err == "nobody holds the chips of node 'n1'\n"


def test_there_must_be_such_a_node(shared):
    assert shared("node", "free", "n9").code == 10


def test_metrics_say_how_busy_the_chips_of_a_program_are(shared):
    host, _, port = on_workers(shared, "echo -n $LOCALSIM_CHIPS")[2].rpartition(":")
    with socket.create_connection((host, int(port))) as program, program.makefile("rwb", 0) as told:
        told.readline()
        told.write(b'{"hold": 7}\n')
        told.readline()
        told.write(b'{"bytes": [1073741824, 1073741824, 1073741824, 1073741824], "busy": 0.83}\n')
        (row,) = shared("node", "metrics", "n1", "--worker", "2").rows
        assert row[:3] == ["2", "busy 83 %", "4.0 GiB of 63.0 GiB"]


def test_metrics_say_that_chips_are_held_though_no_program_is_loaded(shared, hold):
    hold(1)
    rows = shared("node", "metrics", "n1").rows
    assert [row[:3] for row in rows] == [
        ["0", "free", "-"], ["1", "held, no program loaded", "-"], ["2", "free", "-"],
        ["3", "free", "-"],
    ]  # fmt: skip
    assert all(row[3].endswith(" %") and " of " in row[4] for row in rows)
    kept = shared("node", "metrics", "n1", "--worker", "1", "--since", "1h", "-o", "json").json
    assert [each["worker"] for each in kept] == [1, 1]
    assert [each["values"]["chip.held"] for each in kept] == [1.0, 1.0]


def remember(tpuctl, minutes: int, *held: float) -> None:
    """What was measured on the four workers of n1 every minute until now, and nothing else."""
    node = tpuctl("node", "describe", "n1", "-o", "json").json["id"]
    (tpuctl.home / "metrics.sqlite").unlink(missing_ok=True)
    times_s = [time.time() - 60 * minute for minute in range(minutes, 0, -1)]
    SampleHistory(tpuctl.home).add(
        node,
        [
            WorkerSamples(0, worker, [Sample(time_s, {"chip.held": state}) for time_s in times_s])
            for worker, state in enumerate(held)
        ],
    )


def explained(tpuctl, name: str) -> list[str]:
    """The lines of what is wrong with n1, of findings that this machine's disk has no part in."""
    shown = tpuctl("explain", "n1")
    assert (shown.code, shown.err) == (0, "")
    return [line for line in shown.out.splitlines() if name in line]


def test_explain_says_that_nobody_uses_a_node_and_what_it_costs(shared):
    remember(shared, 12, 0.0, 0.0, 0.0, 0.0)
    assert explained(shared, "no process uses") == [
        "no process uses the chips of node n1, and it costs 19.20 USD/h (no process has held them "
        "for 12 m, limit 10 m); run: tpuctl node delete n1"
    ]


def test_explain_names_the_process_that_holds_chips_without_a_program(shared, hold):
    train = hold(1, "train")
    remember(shared, 7, 0.0, 1.0, 0.0, 0.0)
    (line,) = explained(shared, "holds")
    start = "a process holds the chips of worker 1, but has no program loaded (held for 7 m, limit "
    assert line.startswith(f"{start}5 m; pid {train.pid} of ")
    assert line.endswith("hold.py train); run: tpuctl node free n1 --worker 1")
