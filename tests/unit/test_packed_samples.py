"""Samples in few bytes: what comes out is what went in, as far as the units go."""

import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.packed_samples import PackedSamplesError, pack, unit_of, unpack

NAMES = (
    "host.cpu_percent", "host.load_1m", "host.memory_used_bytes", "host.disk_read_bytes_per_s",
    "chip.duty_cycle_percent/0", "chip.execution_us/3", "chip.held", "program.step",
    "program.loss", "program.steps_per_s", "program.a_percent",
)  # fmt: skip
NUMBERS = st.floats(min_value=-1e12, max_value=1e12, allow_nan=False)
SAMPLES = st.lists(
    st.fixed_dictionaries(
        {
            "time_s": st.integers(0, 4_000_000_000_000).map(lambda ms: ms / 1000),
            "values": st.dictionaries(st.sampled_from(NAMES), NUMBERS),
        }
    ),
    max_size=20,
)


@given(SAMPLES)
def test_samples_come_back_within_their_unit(samples):
    found = unpack(pack(samples))
    assert [each["time_s"] for each in found] == [each["time_s"] for each in samples]
    for before, after in zip(samples, found, strict=True):
        assert after["values"].keys() == before["values"].keys()
        for name, value in before["values"].items():
            unit = unit_of(name)
            allowed = abs(value) * 1e-5 if unit is None else unit / 2 + abs(value) * 1e-12
            assert abs(after["values"][name] - value) <= allowed + 1e-6


def test_a_value_that_is_missing_stays_missing():
    samples = [
        {"time_s": 1.0, "values": {"program.step": 5.0}},
        {"time_s": 2.0, "values": {}},
        {"time_s": 3.0, "values": {"program.step": 9.0}},
    ]
    assert unpack(pack(samples)) == samples


def test_a_number_too_large_for_a_sum_is_left_out_and_the_others_are_kept():
    printed = {"program.loss": 1e305, "program.lr": 1e299}
    assert unpack(pack([{"time_s": 1.0, "values": printed}])) == [
        {"time_s": 1.0, "values": {"program.lr": 1e299}}
    ]


def packed(**changes) -> bytes:
    document = {"schema": 1, "times_ms": [1000], "columns": {"a": {"values": [1]}}, **changes}
    return zlib.compress(json.dumps(document).encode())


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{}", pack([])[:-3], zlib.compress(b"[" * 100_000), zlib.compress(b"[]"),
        packed(schema=2), packed(times_ms=["x"]), packed(times_ms=3), packed(columns=[]),
        packed(columns={"a": {"values": [True]}}), packed(columns={"a": {"values": [1, 2]}}),
        packed(columns={"a": {"unit": "x", "deltas": [1]}}), packed(columns={"a": {}}),
        packed(columns={"a": {"values": [float("inf")]}}),
        zlib.compress(b'{"schema": 1, "times_ms": [1], "columns": {"a": {"values": [1e999]}}}'),
        packed(columns={"a": {"unit": 0.1, "deltas": [10**400]}}), packed(times_ms=[10**400]),
        packed(times_ms=[-1]), packed(times_ms=[10**15]),
        packed(columns={"a": {"values": [1e301]}}),
        packed(columns={"a": {"values": [None, -1e301]}}, times_ms=[1000, 1]),
        packed(columns={"a": {"unit": 1.0, "deltas": [10**16]}}),
        zlib.compress(b" " * (17 * 1024 * 1024)),
    ],
)  # fmt: skip
def test_what_is_damaged_is_said_to_be(data):
    assert unpack(packed()) == [{"time_s": 1.0, "values": {"a": 1.0}}]
    with pytest.raises(PackedSamplesError):
        unpack(data)
