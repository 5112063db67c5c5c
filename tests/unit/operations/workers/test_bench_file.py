"""The file of measurements, and the lines of a worker that measures."""

import json

import pytest

from tpuctl.errors import NotFoundError, PreconditionError, TransientError, UsageError
from tpuctl.models.operation import CommandResult
from tpuctl.operations.workers import node_bench
from tpuctl.operations.workers.bench_file import (
    DeviceReport,
    MeasuredSlice,
    read_measurements,
    write_measurements,
)
from tpuctl.operations.workers.node_bench import BenchReader, compare_rows
from tpuctl.perfmodel.workload.program.bench_rows import BenchRow
from tpuctl.perfmodel.workload.slice_hardware import slice_hardware

REPORT = DeviceReport(jax="0.10.2", platform="tpu", device_kind="TPU v5 lite", devices=4)
ROWS = (
    BenchRow("matmul", 0.0012, m=4096, k=4096, n=4096),
    BenchRow("collective", 0.003, exchange="all_reduce", size_bytes=2**24),
)
MEASURED = MeasuredSlice("v5litepod-4", "v2-alpha-tpuv5-lite", REPORT, ROWS)


def test_a_file_has_what_was_measured_and_no_name(tmp_path):
    path = tmp_path / "mine.json"
    write_measurements(path, MEASURED, now_s=1_800_000_000)
    document = json.loads(path.read_text())
    assert {key: value for key, value in document.items() if key not in ("rows", "tpuctl")} == {
        "schema": 1,
        "measured_on": "2027-01-15",
        "accelerator_type": "v5litepod-4",
        "generation": "v5e",
        "topology": "2x2",
        "runtime_version": "v2-alpha-tpuv5-lite",
        "jax": "0.10.2",
        "platform": "tpu",
        "device_kind": "TPU v5 lite",
        "devices": 4,
    }
    assert document["rows"][1] == {
        "kind": "collective",
        "measured_s": 0.003,
        "dtype": "bf16",
        "exchange": "all_reduce",
        "size_bytes": 16777216,
    }
    assert read_measurements(path) == MEASURED


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"schema": 2}, "its schema is 2, not 1"),
        ({"rows": [{"kind": "matmul", "measured_s": -1}]}, "a row has measured_s -1"),
        ({"rows": [{"kind": "matmul", "measured_s": 1e-300}]}, "a row has measured_s 1e-300"),
        ({"rows": [{"kind": "matmul", "measured_s": True}]}, "a row has measured_s True"),
        ({"rows": [{"kind": "matmul", "measured_s": 1, "m": "8"}]}, "a row has m 8"),
        ({"rows": [{"kind": "matmul", "measured_s": 1, "m": 10**400}]}, "a row has m 1000"),
        ({"rows": 5}, "a part of it has the wrong type"),
        ({"rows": [{"kind": "matmul", "measured_s": 1, "weather": 1}]}, "weather"),
        ({"accelerator_type": "v99-8"}, "v99-8"),
    ],
)
def test_a_file_that_is_another_one(tmp_path, change, text):
    path = tmp_path / "mine.json"
    write_measurements(path, MEASURED, now_s=0)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(UsageError, match=f"is not a file of measurements: .*{text}"):
        read_measurements(path)


@pytest.mark.parametrize("content", ["", "[]", "{}", "\x00"])
def test_a_file_that_is_none(tmp_path, content):
    (tmp_path / "x").write_text(content)
    with pytest.raises(UsageError, match="is not a file of measurements"):
        read_measurements(tmp_path / "x")
    with pytest.raises(NotFoundError):
        read_measurements(tmp_path / "y")


def test_events_come_in_pieces_and_other_words_are_left_out():
    events = []
    reader = BenchReader(events.append)
    lines = b'welcome\n{"jax": "0.10.2", "platform": "tpu", "device_kind": "TPU v4", "devices": 8}'
    row = b'\n[1]\n{"kind": "copy", "measured_s": 0.5, "size_bytes": 64, "later": 1}\n'
    for place in range(0, len(lines + row), 7):
        reader.out((lines + row)[place : place + 7])
    assert events == [
        DeviceReport("0.10.2", "tpu", "TPU v4", 8),
        BenchRow("copy", 0.5, size_bytes=64),
    ]


def failure(result, out=b"", err=b""):
    reader = BenchReader(lambda event: None)
    reader.out(out)
    reader.err(err)
    node_bench._raise_failure("n1", result, reader)


def test_a_worker_without_jax_is_named_with_the_command_that_installs_it():
    with pytest.raises(PreconditionError, match="python3 on worker 0 of node 'n1' has no JAX") as e:
        failure(CommandResult(0, 0), b'{"missing": "jax"}\n')
    assert e.value.hint == "run: tpuctl node exec n1 -- python3 -m pip install 'jax[tpu]'"


def test_a_worker_that_fails_says_its_last_line():
    with pytest.raises(PreconditionError, match="worker 1 of node 'n1' .*: RuntimeError: in use"):
        failure(CommandResult(1, 1), err=b"Traceback\nRuntimeError: in use\n")
    with pytest.raises(TransientError, match="worker 2: gone"):
        failure(CommandResult(2, 255, lost="worker 2: gone"))


def test_a_ratio_is_measured_over_modelled():
    (compared,) = compare_rows(slice_hardware("v5e", "2x2"), ROWS[:1])
    assert compared.ratio == pytest.approx(0.0012 / compared.modelled.value_s)
