"""Checkpoints of 1 GiB of float32 in 16 arrays, beside safetensors, numpy and Orbax in turns.

Orbax is looked for in the Python that ORBAX_PYTHON names (`pip install orbax-checkpoint` in an
environment of its own), and left out without it.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from benchmarks.measure import keep
from benchmarks.peers.checkpoint_contestant import ARRAYS, SHAPE
from benchmarks.peers.storage_servers import BUCKET, NO_WORKERS
from tpuctl.operations.local import local_cloud
from tpuctl.store import open_store

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]

CONTESTANT = str(Path(__file__).parents[1] / "peers" / "checkpoint_contestant.py")
TPUCTL = str(Path(sys.executable).with_name("tpuctl"))
ROUNDS = 7
FIRSTS = 5
TREE_MIB = ARRAYS * SHAPE[0] * SHAPE[1] * 4 / 2**20


class Contestant:
    """A process that is told what to do, and says how long it took."""

    def __init__(self, process):
        self._process = process
        self._answer()

    def __call__(self, what, where=""):
        self._process.stdin.write(json.dumps([what, str(where)]) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self):
        line = self._process.stdout.readline()
        assert line, "the contestant died"
        return json.loads(line)


@contextmanager
def contestant(name, environ=os.environ):
    python = environ.get("ORBAX_PYTHON", "") if name == "orbax" else sys.executable
    process = subprocess.Popen(
        [python, CONTESTANT, name],
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if name == "orbax" else None,
        text=True,
    )
    with process:
        try:
            yield Contestant(process)
        finally:
            process.kill()


def contestants(stack, *names):
    """Those that are there, by name."""
    return {
        name: stack.enter_context(contestant(name))
        for name in names
        if name != "orbax" or os.environ.get("ORBAX_PYTHON")
    }


def forget(directory):
    """Take the files out of the page cache: the next read is cold."""
    for path in directory.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def read_files(directory):
    """The seconds that the disk alone takes: every file read into the same 8 MiB, unchecked."""
    aside = bytearray(8 * 2**20)
    began_s = time.perf_counter()
    for path in sorted(directory.rglob("*.safetensors")):
        with path.open("rb", buffering=0) as file:
            while file.readinto(aside):
                pass
    return time.perf_counter() - began_s


def times_faster(times, what, peer):
    """How many times as long a peer takes; None when it is not there."""
    if (what, peer) not in times:
        return None
    return round(median(times[what, peer]) / median(times[what, "ours"]), 2)


def median(values):
    return statistics.median(values)


def test_saved_to_disk_and_restored(tmp_path):
    times = defaultdict(list)
    with ExitStack() as stack:
        entered = contestants(stack, "ours", "safetensors", "orbax")
        for number in range(ROUNDS + 1):
            for name, act in entered.items():
                directory = tmp_path / f"{name}-{number}"
                found = {"save": act("save", directory)}
                act("restore", directory)  # from now on it is in the page cache
                found["restore, cached"] = act("restore", directory)
                forget(directory)
                found["restore, cold"] = act("restore", directory)
                if name == "ours" and number:
                    forget(directory)
                    times["disk"].append(read_files(directory))
                shutil.rmtree(directory)
                os.sync()
                for what, answer in found.items():
                    times[what, name] += [answer["s"]] * bool(number)
    targets = {
        "save": "at most 1.15 x safetensors + fsync, 2 x faster than Orbax",
        "restore, cached": "at most 1.2 x safetensors' load, 1.5 x faster than Orbax",
        "restore, cold": "at most safetensors' load or the disk's limit, 1.5 x faster than Orbax",
    }
    for what, target in targets.items():
        keep(
            f"checkpoint of 1 GiB: {what}",
            target,
            to_safetensors=round(1 / times_faster(times, what, "safetensors"), 2),
            faster_than_orbax=times_faster(times, what, "orbax"),
            **({"disk_alone_s": times["disk"]} if what == "restore, cold" else {}),
            **{f"{name}_s": times[what, name] for name in entered},
        )


def test_saved_beside_training(tmp_path):
    times = defaultdict(list)
    with ExitStack() as stack:
        entered = contestants(stack, "ours", "orbax")
        for number in range(ROUNDS + 1):
            times["copy"] += [entered["ours"]("copy")["s"]] * bool(number)
            for name, act in entered.items():
                found = act("save_behind", tmp_path / name)
                found["slower"] = found["busy"] / found["quiet"]
                for what, value in found.items():
                    times[f"{name}_{what}"] += [value] * bool(number)
                os.sync()
    keep(
        "checkpoint of 1 GiB: saved beside training",
        "blocked at most 1.2 x a copy by numpy; steps less than 1.3 x as long meanwhile",
        blocked_to_copy=round(median(times["ours_blocked"]) / median(times["copy"]), 2),
        **times,
    )


def test_the_first_save_of_a_run(tmp_path):
    times = defaultdict(list)
    for _ in range(FIRSTS):  # in turns, each in a process of its own: its memory is new
        for what in ("first_save_at_once", "first_save"):
            with contestant("ours") as act:
                found = act(what, tmp_path / what)
            for which, value in found.items():
                times[f"{what}_{which}_s"].append(value)
            shutil.rmtree(tmp_path / what)
            os.sync()
    keep(
        "checkpoint of 1 GiB: the first save of a run",
        "blocked at most 1.2 x as long as the second save",
        to_second=round(
            median(times["first_save_first_s"]) / median(times["first_save_later_s"]), 2
        ),
        to_at_once=round(
            median(times["first_save_first_s"]) / median(times["first_save_at_once_first_s"]), 2
        ),
        **times,
    )


def test_saved_to_a_bucket(tmp_path):
    times = defaultdict(list)
    with serving(tmp_path) as environ, contestant("ours", environ) as ours:
        ours("save", tmp_path / "same")
        shutil.rmtree(tmp_path / "same" / ".tpuctl-store")
        for number in range(ROUNDS + 1):
            there = f"gs://{BUCKET}/{number}"
            found = {"save": ours("save", f"{there}/ours")["s"]}
            found["restore"] = ours("restore", f"{there}/ours")["s"]
            found["push"] = push(environ, tmp_path / "same", f"{there}/push")
            for what, value in found.items():
                times[f"{what}_s"] += [value] * bool(number)
            remove(there, environ)
        with contestant("ours", environ) as fresh:
            extra_mib = fresh("extra_memory", f"gs://{BUCKET}/memory")["mib"]
    keep(
        "checkpoint of 1 GiB: saved to the simulated bucket",
        "0.8 x the throughput of data push; extra memory at most 1.1 x the tree + 64 MiB",
        throughput_to_push=round(median(times["push_s"]) / median(times["save_s"]), 2),
        extra_mib=[round(extra_mib)],
        tree_mib=TREE_MIB,
        **times,
    )


@contextmanager
def serving(tmp_path):
    """A simulator; what programs that talk to it read."""
    home, scenario = tmp_path / "home", tmp_path / "scenario.yaml"
    scenario.write_text(NO_WORKERS)
    line = local_cloud.up(home, "local", local_cloud.SimulatorOptions(scenario=scenario))
    try:
        yield {**os.environ, "TPUCTL_HOME": str(home), **local_cloud.client_environment(line)}
    finally:
        local_cloud.down(home, "local")


def push(environ, source, target):
    """The seconds of `tpuctl data push`, the whole process."""
    told = {name: value for name, value in environ.items() if name != "STORAGE_EMULATOR_HOST"}
    began = time.perf_counter()
    argv = [TPUCTL, "data", "push", str(source), target, "-q"]
    subprocess.run(argv, env=told, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def remove(url, environ):
    """Rounds do not grow the bucket."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORAGE_EMULATOR_HOST", environ["STORAGE_EMULATOR_HOST"])
        store = open_store(url)
    for entry in list(store.list()):
        store.delete(entry.key, generation=entry.generation)
