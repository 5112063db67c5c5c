"""Which axes of a slice are joined at their ends."""

import pytest

from tpuctl import catalog
from tpuctl.perfmodel import chip
from tpuctl.perfmodel.chip import Axis


def line(length):
    return Axis(length, is_ring=False)


def rings(generation, topology):
    return [axis.is_ring for axis in chip.axes(generation, topology)]


@pytest.mark.parametrize(
    ("generation", "topology", "expected"),
    [
        ("v5e", "4x8", [False, False]),
        ("v5e", "8x16", [False, True]),
        ("v6e", "16x16", [True, True]),
        ("v4", "2x2x4", [False, False, False]),
        ("v4", "4x4x4", [True, True, True]),
        ("v4", "2x4x4", [False, False, False]),
        ("v5p", "4x12x20", [True, True, True]),
        ("tpu7x", "4x4x8", [True, True, True]),
        ("v2", "8x16", [False, True]),
        ("v2", "4x4", [False, False]),
        ("v3", "16x16", [False, False]),
        ("v3", "32x32", [True, True]),
    ],
)
def test_wraparound(generation, topology, expected):
    assert rings(generation, topology) == expected


def test_every_dimension_of_a_topology_is_an_axis():
    assert chip.axes("v5p", "2x2x1") == (line(2), line(2), line(1))
    assert chip.axes_of("v5litepod-1") == (line(1), line(1))


def test_every_accelerator_type_has_axes_of_its_chips():
    for generation in catalog.generations():
        for kind in generation.types:
            lengths = [axis.length for axis in chip.axes_of(kind.name)]
            assert lengths == [int(length) for length in kind.topology.split("x")]


def test_a_twisted_torus():
    assert [axis.twist for axis in chip.axes("v4", "4x4x8", is_twisted=True)] == [1, 1, 1.63]
    assert [axis.twist for axis in chip.axes("v4", "4x8x8", is_twisted=True)] == [1, 1.31, 1.31]


@pytest.mark.parametrize("topology", ["4x4x4", "4x4x12", "2x2x4", "8x16"])
def test_what_cannot_be_twisted(topology):
    with pytest.raises(ValueError, match=f"twist, not {topology}"):
        chip.axes("v4", topology, is_twisted=True)


@pytest.mark.parametrize("topology", ["", "4x", "4x-1", "4x0", "4*4", "x"])
def test_what_is_no_topology(topology):
    with pytest.raises(ValueError, match="not a topology such as 4x4 or 4x4x8"):
        chip.axes("v5e", topology)


def test_unknown_names_are_the_catalog_s_errors():
    with pytest.raises(catalog.UnknownError):
        chip.axes("v9", "4x4")
    with pytest.raises(catalog.UnknownError):
        chip.axes_of("v5litepod-17")
