"""A list of 1,000 steps of 10,000 arrays each, beside the file system's own walk over their files.

What it took before COMMIT had a head is what it takes to decode every COMMIT whole.
"""

import os
import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks.measure import keep, whole_process
from benchmarks.storage.test_checkpoint_speed import TPUCTL, median
from tpuctl.checkpoint import Checkpointer, list_steps
from tpuctl.checkpoint.format import layout
from tpuctl.checkpoint.format.manifest import decode, decode_commit, encode
from tpuctl.store import crc32c
from tpuctl.store.directory import PRIVATE
from tpuctl.store.durable_files import ChecksumFiles

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

STEPS, ARRAYS, ROUNDS = 1000, 10_000, 7


def test_a_list_of_many_large_steps(tmp_path):
    commit_bytes = fill(tmp_path)
    times = {"list_steps_s": [], "command_s": [], "walk_s": [], "decode_one_whole_s": []}
    data = (tmp_path / layout.commit_key(1)).read_bytes()
    argv = [TPUCTL, "checkpoint", "list", str(tmp_path), "-o", "json"]
    for _ in range(ROUNDS):
        for name, act in {
            "list_steps_s": lambda: list_steps(str(tmp_path)),
            "walk_s": lambda: walk(tmp_path),
            "decode_one_whole_s": lambda: decode_commit(data),
        }.items():
            began_s = time.perf_counter()
            result = act()
            times[name].append(time.perf_counter() - began_s)
            assert name != "list_steps_s" or len(result) == STEPS
        environ = {**os.environ, "TPUCTL_HOME": str(tmp_path / "home")}
        times["command_s"].append(whole_process(argv, environ))
    keep(
        "checkpoints: a list of 1,000 steps of 10,000 arrays",
        "at most 1 s",
        to_walk=round(median(times["list_steps_s"]) / median(times["walk_s"]), 1),
        every_commit_whole_s=[round(STEPS * median(times["decode_one_whole_s"]), 1)],
        commit_bytes=commit_bytes,
        **times,
    )


def fill(directory: Path) -> int:
    """One step that is saved, and the others as its copies of other numbers; bytes of a COMMIT."""
    tree = {f"layer_{number:05}": np.zeros(4, np.float32) for number in range(ARRAYS)}
    with Checkpointer(str(directory), 0, 1, fence=1) as checkpointer:
        checkpointer.save(1, tree, wait=True)
    first = directory / layout.commit_key(1)
    head, _, arrays = first.read_bytes().partition(b"\n")
    record = decode(head)
    shard = directory / record["objects"][0]["path"]
    sums = ChecksumFiles(directory / PRIVATE / "crc32c")
    for step in range(2, STEPS + 1):
        path = layout.shard_key(step, 1, 0, 1, 0)
        (directory / path).parent.mkdir(parents=True)
        os.link(shard, directory / path)
        objects = [{**record["objects"][0], "path": path}]
        data = encode({**record, "step": step, "objects": objects}) + b"\n" + arrays
        commit = directory / layout.commit_key(step)
        commit.write_bytes(data)
        sums.write(path, shard.stat().st_mtime_ns, record["objects"][0]["crc32c"])
        sums.write(layout.commit_key(step), commit.stat().st_mtime_ns, crc32c(data))
    return first.stat().st_size


def walk(directory: Path) -> int:
    """The bytes of all files: what any list has to ask the file system."""
    return sum(
        Path(place, name).stat().st_size for place, _, names in os.walk(directory) for name in names
    )
