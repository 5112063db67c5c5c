"""Where chips are, and the links that groups of them have."""

import pytest

from localsim.core.collectives.torus import HOST_BOUNDS, coordinates, torus_span
from localsim.workers import metadata_tree
from tpuctl import catalog
from tpuctl.perfmodel.chip import Axis

LINE2, LINE4, ONE = Axis(2, is_ring=False), Axis(4, is_ring=False), Axis(1, is_ring=False)


@pytest.mark.parametrize("name", ["v5litepod-8", "v5litepod-64", "v4-128", "v6e-1", "v3-32"])
def test_every_chip_has_a_place_of_its_own_beside_its_host(name):
    kind = catalog.accelerator_type(name)
    places = [coordinates(name, chip) for chip in range(kind.chips)]
    lengths = [*map(int, kind.topology.split("x")), 1][:3]
    assert sorted(places) == sorted(
        (x, y, z) for x in range(lengths[0]) for y in range(lengths[1]) for z in range(lengths[2])
    )
    for first in range(0, kind.chips, kind.chips_per_worker):
        host = places[first : first + kind.chips_per_worker]
        spans = [max(axis) - min(axis) + 1 for axis in zip(*host, strict=True)]
        assert tuple(spans) == HOST_BOUNDS[kind.chips_per_worker]


def test_hosts_have_the_bounds_that_the_metadata_server_tells():
    assert HOST_BOUNDS == metadata_tree._HOST_BOUNDS


def test_x_counts_fastest():
    assert [coordinates("v5litepod-16", chip) for chip in (0, 1, 2, 4, 8, 15)] == [
        (0, 0, 0), (1, 0, 0), (0, 1, 0), (2, 0, 0), (0, 2, 0), (3, 3, 0)
    ]  # fmt: skip


def test_there_is_no_chip_beyond_the_slice():
    with pytest.raises(ValueError, match="v5litepod-16 has 16 chips, no chip 16"):
        coordinates("v5litepod-16", 16)


@pytest.mark.parametrize(
    ("name", "group", "axes", "sharing"),
    [
        ("v5litepod-16", range(16), (LINE4, LINE4, ONE), 1),
        ("v5litepod-16", range(4), (LINE2, LINE2, ONE), 1),  # a host
        ("v5litepod-16", range(0, 16, 4), (LINE2, LINE2, ONE), 2),  # the first chip of each host
        ("v5litepod-16", range(3), (LINE2, LINE2, ONE), 2),  # fills no box
        ("v4-128", range(64), (Axis(4, is_ring=True),) * 3, 1),
        ("v4-128", range(0, 64, 16), (ONE, ONE, Axis(4, is_ring=True)), 1),
        ("v5litepod-256", range(0, 256, 4), (Axis(8, is_ring=True),) * 2 + (ONE,), 2),
    ],
)
def test_a_group_spans_what_it_has_of_the_torus(name, group, axes, sharing):
    assert torus_span(name, group) == (axes, sharing)
