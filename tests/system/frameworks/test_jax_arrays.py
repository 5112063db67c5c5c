"""Arrays of JAX on a mesh of eight devices, of one process and of two: real JAX, in processes."""

import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from clouds import MATRIX

WORKER = Path(__file__).with_name("jax_worker.py")
WHOLE = {
    "sharded": ((8, 8), np.arange(64, dtype=np.float32).tobytes()),
    "partly": (
        (6, 4),
        (np.arange(24, dtype=np.float32).view(np.uint32) >> 16).astype("<u2").tobytes(),
    ),
    "replicated": ((5,), bytes([14, 15, 0, 1, 2])),
    "one": ((3,), np.arange(3, dtype=np.int32).tobytes()),
    "empty": ((0, 4), b""),
}
"""The tree of jax_worker.py: shape, and the bytes in memory, here without ml_dtypes."""


@dataclass
class Found:
    """What each worker wrote down, and the parts that it would store."""

    reports: list[dict]
    parts: list[tuple[str, list[int], np.ndarray]]

    def stored_by(self, path):
        return [
            [(tuple(offset), tuple(shape)) for name, offset, shape in each["boxes"] if name == path]
            for each in self.reports
        ]


def run(worker_count, directory):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    workers = [
        subprocess.Popen(
            [sys.executable, WORKER, str(i), str(worker_count), str(port), directory],
            stderr=subprocess.PIPE,
            env={**os.environ, "JAX_PLATFORMS": "cpu"},
        )
        for i in range(worker_count)
    ]
    for worker in workers:
        _, errors = worker.communicate(timeout=60)
        assert worker.returncode == 0, errors.decode()
    reports = [json.loads((directory / f"{i}.json").read_text()) for i in range(worker_count)]
    parts = []
    for i, report in enumerate(reports):
        with np.load(directory / f"{i}.npz") as arrays:
            for number, (path, offset, _shape) in enumerate(report["boxes"]):
                parts.append((path, offset, arrays[str(number)]))
    return Found(reports, parts)


@pytest.fixture(
    scope="module",
    params=[pytest.param(1, marks=MATRIX, id="one process"), pytest.param(2, id="two processes")],
)
def on_eight_devices(request, tmp_path_factory):
    if find_spec("jax") is None:
        pytest.skip("JAX is not installed")
    return run(request.param, tmp_path_factory.mktemp("jax"))


@pytest.mark.parametrize("path", WHOLE)
def test_over_all_processes_every_element_is_stored_once(on_eight_devices, path):
    shape, expected = WHOLE[path]
    mine = [(offset, array) for name, offset, array in on_eight_devices.parts if name == path]
    whole = np.zeros(shape, mine[0][1].dtype)
    times = np.zeros(shape, int)
    for offset, array in mine:
        index = tuple(slice(o, o + n) for o, n in zip(offset, array.shape, strict=True))
        whole[index] = array
        times[index] += 1
    assert (times == 1).all()
    assert whole.tobytes() == expected


def test_processes_that_hold_the_same_share_its_rows(on_eight_devices):
    if len(on_eight_devices.reports) == 1:
        assert on_eight_devices.stored_by("partly") == [[((0, 0), (6, 2)), ((0, 2), (6, 2))]]
    else:
        assert on_eight_devices.stored_by("partly") == [
            [((0, 0), (3, 2)), ((0, 2), (3, 2))],
            [((3, 0), (3, 2)), ((3, 2), (3, 2))],
        ]
        assert on_eight_devices.stored_by("one") == [[((0,), (2,))], [((2,), (1,))]]


def test_a_named_sharding_is_described(on_eight_devices):
    mesh = {"x": 4, "y": 2}
    for report in on_eight_devices.reports:
        leaves = report["leaves"]
        assert leaves["sharded"] == ["float32", [8, 8], {"mesh": mesh, "spec": ["x", "y"]}]
        assert leaves["replicated"] == ["int4", [5], {"mesh": mesh, "spec": []}]
        assert leaves["one"] == ["int32", [3], None]


def test_each_device_of_another_mesh_gets_its_part(on_eight_devices):
    for report in on_eight_devices.reports:
        assert report["restored"]["right"] == dict.fromkeys(report["leaves"], True)


def test_what_several_devices_hold_is_read_once(on_eight_devices):
    devices = 8 // len(on_eight_devices.reports)
    for report in on_eight_devices.reports:
        read = report["restored"]["boxes_read"]
        assert (read["sharded"], read["partly"], read["replicated"]) == (devices, 4, 1)


def test_what_jax_was_free_to_place_stays_so(on_eight_devices):
    assert not any(report["restored"]["one_committed"] for report in on_eight_devices.reports)


def test_a_worker_must_be_the_process_of_that_number(on_eight_devices):
    for process, report in enumerate(on_eight_devices.reports):
        expected = f"this is worker {1 - process} of 2, but process {process} of 2 for JAX"
        assert report["wrong_worker"] == (expected if len(on_eight_devices.reports) == 2 else "")


def test_what_has_no_numbers_is_refused_with_its_path(on_eight_devices):
    refused = on_eight_devices.reports[0]["refused"]
    assert refused.pop("abstract").startswith(".: the sharding of like has no place for it")
    assert refused == {
        "traced": "cannot save 0: JAX is tracing it",
        "deleted": "cannot save 0: the array was deleted or donated",
        "key": "cannot save 0: a typed key has no numbers to save",
        "wide": ".: JAX would make float32 of float64",
        "shape": ".: the checkpoint has float64 of shape (3,), like has float32 of shape (4,)",
    }
