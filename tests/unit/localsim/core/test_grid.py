"""Named axes: who is in which group, what is refused, what it costs."""

import numpy as np
import pytest

from localsim.core import Mesh
from tpuctl.perfmodel import chip as model

ALONE = {"TPU_ACCELERATOR_TYPE": "v5litepod-8"}
OPERATIONS = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "permute")
MIB = 1 << 20


@pytest.fixture
def mesh():
    """A slice of 2x4 chips, all of one worker."""
    with Mesh.connect(ALONE) as mesh:
        yield mesh


def ones(*shape):
    return [np.ones(shape, np.float32) for _ in range(8)]


def test_the_last_axis_varies_fastest(mesh):
    grid = mesh.grid(data=2, model=4)
    assert (grid.size("data"), grid.size("model")) == (2, 4)
    assert [grid.index(chip, "data") for chip in range(8)] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert [grid.index(chip, "model") for chip in range(8)] == [0, 1, 2, 3, 0, 1, 2, 3]


@pytest.mark.parametrize("sizes", [{"data": 3}, {"data": 8, "model": 0}, {}, {"data": -8}])
def test_a_grid_has_all_chips(mesh, sizes):
    with pytest.raises(ValueError, match="has not the slice's 8 chips"):
        mesh.grid(**sizes)


def test_an_axis_has_a_name_of_the_grid(mesh):
    with pytest.raises(ValueError, match="no axis 'rows' in a grid of data=2 model=4"):
        mesh.grid(data=2, model=4).all_reduce(ones(1), "rows")


@pytest.mark.parametrize(
    ("operation", "by_chip", "how", "reason"),
    [
        ("all_reduce", ones(2)[:3], {}, "8 chips, but arrays of 3"),
        ("all_reduce", [*ones(2)[:7], np.ones(3)], {}, r"float32\[2\] and float64\[3\]"),
        ("all_reduce", [["a"]] * 8, {}, "chips have no arrays of <U1"),
        ("all_reduce", [np.array(None)] * 8, {}, "chips have no arrays of object"),
        ("reduce_scatter", ones(6, 3), {}, r"axis 0 of an array of shape \(6, 3\) has not 8 equal"),
        ("reduce_scatter", ones(), {}, r"an array of shape \(\) has no axis 0"),
        ("all_gather", ones(6, 3), {"dim": 2}, r"an array of shape \(6, 3\) has no axis 2"),
        ("all_to_all", ones(8, 3), {"split": 1}, r"axis 1 of an array of shape \(8, 3\)"),
        ("all_to_all", ones(8, 3), {"concat": -3}, "has no axis -3"),
    ],
)
def test_what_does_not_go_together_is_refused(mesh, operation, by_chip, how, reason):
    with pytest.raises(ValueError, match=reason):
        getattr(mesh, operation)(by_chip, **how)
    assert mesh.all_reduce(ones(1))[0] == [8.0]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("axis", ["data", "one"])
def test_results_are_not_written_and_never_what_was_given(mesh, operation, axis):
    given = ones(8, 8)
    for got in getattr(mesh.grid(data=8, one=1), operation)(given, axis):
        assert not any(np.shares_memory(got, each) for each in given)
        with pytest.raises(ValueError, match="read-only"):
            got += 1


@pytest.mark.parametrize("operation", OPERATIONS)
def test_results_stay_when_the_next_collective_begins(mesh, operation):
    given = [np.full((8, 8), chip, np.float32) for chip in range(8)]
    first = getattr(mesh, operation)(given)
    before = [each.copy() for each in first]
    getattr(mesh, operation)(ones(8, 8))
    assert all(map(np.array_equal, first, before))


def test_buffers_of_the_chip_are_given_as_they_are(mesh):
    buffers = [chip.put(np.full(3, 1.0 + 2**-9), "bf16") for chip in mesh.chips]
    before = mesh.chips[0].counters.ici_bytes
    gathered = mesh.all_gather(buffers)
    assert (gathered[0].dtype, gathered[0].tolist()) == (np.float32, [1.0] * 24)
    assert mesh.chips[0].counters.ici_bytes - before == 2 * 3 * 7


@pytest.mark.parametrize("form", ["e4m3", "e5m2"])
def test_of_buffers_in_fp8_numbers_are_added_and_codes_are_moved(mesh, form):
    buffers = [chip.put(np.full(3, 1.5), form) for chip in mesh.chips]
    assert mesh.all_reduce(buffers)[0].tolist() == [12.0] * 3
    assert np.array_equal(mesh.permute(buffers)[0], buffers[0].values)


def test_buffers_in_different_forms_are_not_alike(mesh):
    forms = ["e4m3", *["e5m2"] * 7]
    buffers = [chip.put(np.ones(3), form) for chip, form in zip(mesh.chips, forms, strict=True)]
    with pytest.raises(ValueError, match=r"different arrays: e4m3\[3\] and e5m2\[3\]"):
        mesh.all_gather(buffers)


def test_whole_numbers_are_added_exactly_or_not_at_all(mesh):
    assert mesh.all_reduce([2**24 + 1] * 8)[0] == 8 * (2**24 + 1)
    with pytest.raises(ValueError, match="added in int32, which does not hold 2147483648"):
        mesh.all_reduce([2**31] * 8)


@pytest.mark.parametrize(
    ("operation", "sent_bytes", "whole_bytes"),
    [
        ("all_reduce", 2 * MIB * 3 / 4, MIB),
        ("reduce_scatter", MIB * 3 / 4, MIB),
        ("all_gather", MIB * 3, 4 * MIB),
        ("all_to_all", MIB * 3 / 4, 4 * MIB),
        ("permute", MIB, MIB),
    ],
)
def test_every_chip_is_charged_what_it_sends(mesh, operation, sent_bytes, whole_bytes):
    """The groups of `model` are 2x2 of the chips, without a ring; so much waits for the links."""
    getattr(mesh.grid(data=2, model=4), operation)(ones(MIB // 4), "model")
    lines = (model.Axis(2, is_ring=False), model.Axis(2, is_ring=False))
    estimate = model.collective(operation, "v5e", lines, whole_bytes)
    for chip in mesh.chips:
        assert chip.counters.ici_bytes == sent_bytes
        assert chip.counters.modelled_s == pytest.approx(estimate.value_s)
        assert estimate.terms["ici"] > estimate.terms["latency"]
        assert chip.counters.energy_j > 0


def test_all_chips_are_charged_as_the_accelerator_type_says(mesh):
    mesh.all_reduce([[np.ones(1000, np.float32), np.ones(24, np.float32)]] * 8)
    estimate = model.all_reduce("v5litepod-8", 4096)
    assert mesh.chips[0].counters.modelled_s == pytest.approx(estimate.value_s)


def test_arrays_are_charged_in_the_formats_of_the_chip(mesh):
    mesh.permute([np.ones(8)] * 8)  # float64: 32 bits on the chip
    assert mesh.chips[0].counters.ici_bytes == 32


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_group_of_one_chip_costs_nothing(mesh, operation):
    given = [np.arange(8, dtype=np.int64)] * 8
    got = getattr(mesh.grid(data=8, one=1), operation)(given, "one")
    assert np.array_equal(got, given)
    assert mesh.chips[0].counters.modelled_s == 0


def test_a_permute_goes_as_far_as_the_shorter_way(mesh):
    costs = []
    for shift in (0, 1, 2, 6, 7, 8):
        before = mesh.chips[0].counters
        mesh.permute(ones(1 << 20), shift)
        costs.append((mesh.chips[0].counters - before).modelled_s)
    none, near, far, far_back, near_back, around = costs
    assert none == around == 0 < near < far
    assert (near_back, far_back) == pytest.approx((near, far))
