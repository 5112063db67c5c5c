"""Any program as a list of operations."""

from dataclasses import replace

import numpy as np
import pytest

from tpuctl.perfmodel import chip
from tpuctl.perfmodel.chip.torus import Axis
from tpuctl.perfmodel.workload.program.program_times import (
    ProgramOperation,
    axes_among,
    operation_times,
    program_time,
)
from tpuctl.perfmodel.workload.slice_hardware import slice_hardware

V5E = slice_hardware("v5e", "4x4")
PRODUCT = ProgramOperation("matmul", "dot", sides=(4096, 4096, 4096))
PASS = ProgramOperation("elementwise", "add", read_bytes=2**26, written_bytes=2**25)
SUM = ProgramOperation("collective", "psum", exchange="all_reduce", ways=16, read_bytes=2**26)


def test_each_operation_takes_what_the_chip_model_says():
    times = operation_times(V5E, [PRODUCT, PASS, SUM])
    expected = [
        chip.matmul("v5e", 4096, 4096, 4096),
        chip.elementwise("v5e", 2**26, 2**25),
        chip.collective("all_reduce", "v5e", V5E.axes, 2**26),
    ]
    for name in ("value_s", "low_s", "high_s"):
        assert getattr(times, name) == pytest.approx([getattr(each, name) for each in expected])


def test_ragged_products_and_wide_exchanges_have_the_intervals_of_the_chip_model():
    v4, v3 = slice_hardware("v4", "8x8x16"), slice_hardware("v3", "4x4")
    ragged = ProgramOperation("matmul", dtype="f16", sides=(2010, 1346, 3347))
    widest = ProgramOperation("collective", exchange="all_reduce", ways=1024, read_bytes=2**20)
    times = operation_times(v4, [ragged, replace(ragged, dtype="bf16"), widest])
    on_half_a_chip = operation_times(v3, [ragged])
    expected = [
        chip.matmul("v4", *ragged.sides, dtype="f16"),
        chip.matmul("v4", *ragged.sides),
        chip.collective("all_reduce", "v4", v4.axes, 2**20),
    ]
    half = chip.matmul("v3", *ragged.sides, dtype="f16", part="device")
    for name in ("value_s", "low_s", "high_s"):
        assert getattr(times, name) == pytest.approx([getattr(each, name) for each in expected])
        assert getattr(on_half_a_chip, name) == pytest.approx(getattr(half, name))
    assert sum(times.terms.values()) == pytest.approx(times.value_s)


def test_a_program_is_the_sum_of_its_operations_and_its_terms():
    program = [PRODUCT, PASS, SUM]
    step = program_time(V5E, program)
    assert step.value_s == pytest.approx(sum(step.terms.values()))
    assert step.value_s == pytest.approx(sum(program_time(V5E, [each]).value_s for each in program))
    assert step.low_s < step.value_s < step.high_s
    assert step.bound == max(step.terms, key=step.terms.get)
    assert set(step.terms) == {"compute", "memory", "launch", "ici"}


def test_a_program_names_the_constants_that_it_was_timed_with():
    def names(program):
        return {source.partition(":")[0] for source in program_time(V5E, program).sources}

    assert names([PRODUCT]) == {"launch_s", "compute_efficiency", "memory_efficiency"}
    assert names([SUM]) - names([PRODUCT]) == {"collective_step_s", "ici_efficiency"}


def test_the_least_time_hides_an_exchange_behind_computing():
    computing, exchanging = program_time(V5E, [PRODUCT]), program_time(V5E, [SUM])
    both = program_time(V5E, [PRODUCT, SUM])
    assert both.low_s == max(computing.low_s, exchanging.low_s)
    assert both.high_s == pytest.approx(computing.high_s + exchanging.high_s)


def test_an_operation_of_a_loop_counts_as_often_as_it_runs():
    once = program_time(V5E, [PRODUCT])
    often = program_time(V5E, [ProgramOperation("matmul", sides=(4096,) * 3, count=24)])
    assert often.value_s == pytest.approx(24 * once.value_s)


def test_what_is_fused_pays_no_launch_and_moves_its_own_bytes_only():
    fused = ProgramOperation("elementwise", read_bytes=2**26, written_bytes=2**25, is_fused=True)
    assert "launch" not in program_time(V5E, [fused]).terms
    assert program_time(V5E, [fused]).value_s < program_time(V5E, [PASS]).value_s


def test_one_device_of_a_chip_with_two_computes_at_half_of_its_rate():
    hardware = slice_hardware("tpu7x", "2x2x1")
    whole = chip.matmul("tpu7x", 8192, 8192, 8192)
    half = program_time(hardware, [ProgramOperation("matmul", sides=(8192,) * 3)])
    assert half.terms["compute"] == pytest.approx(2 * whole.terms["compute"], rel=1e-6)


@pytest.mark.parametrize(
    ("ways", "axes"),
    [
        (16, (Axis(4, is_ring=False), Axis(4, is_ring=False))),
        (4, (Axis(4, is_ring=False),)),
        (8, (Axis(8, is_ring=False),)),
    ],
)
def test_devices_exchange_over_axes_of_the_slice_where_they_are_some(ways, axes):
    assert axes_among(V5E, ways) == axes


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"kind": "sort"}, "unknown kind 'sort'"),
        ({"kind": "matmul", "dtype": "f64"}, "unknown dtype 'f64'"),
        ({"kind": "matmul", "count": -1}, "finite and not negative"),
        ({"kind": "elementwise", "read_bytes": float("nan")}, "finite and not negative"),
        ({"kind": "convolution"}, "a convolution has a shape"),
    ],
)
def test_what_is_not_an_operation(fields, text):
    with pytest.raises(ValueError, match=text):
        ProgramOperation(**fields)


def test_a_program_without_operations():
    with pytest.raises(ValueError, match="at least one operation"):
        program_time(V5E, [])


def test_a_thousand_operations_are_a_few_calls_of_the_chip_model(monkeypatch):
    calls = []
    terms = chip.gemm.terms
    monkeypatch.setattr(chip.gemm, "terms", lambda *args: calls.append(1) or terms(*args))
    program = [ProgramOperation("matmul", sides=(128 + n, 128, 128)) for n in range(1000)]
    assert np.shape(operation_times(V5E, program).value_s) == (1000,)
    assert len(calls) == 1
