"""Collectives: bytes on links beside messages that are sent one by one, and what always holds."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl import catalog
from tpuctl.perfmodel import chip
from tpuctl.perfmodel.chip import Axis, calibration, collectives

TYPES = tuple(kind.name for each in catalog.generations() for kind in each.types)
SIZES = st.integers(min_value=0, max_value=2**40)
OPERATIONS = st.sampled_from(collectives.OPERATIONS)


def ring(length):
    return Axis(length, is_ring=True)


def line(length):
    return Axis(length, is_ring=False)


def steps(start, end, axis):
    """The ways from a place to another on an axis: lists of (place, direction), each a link."""
    if not axis.is_ring:
        direction = 1 if end > start else -1
        return [[(place, direction) for place in range(start, end, direction)]]
    ahead, back = (end - start) % axis.length, (start - end) % axis.length
    ways = {
        1: [((start + step) % axis.length, 1) for step in range(ahead)],
        -1: [((start - step) % axis.length, -1) for step in range(back)],
    }
    shortest = min(len(way) for way in ways.values())
    return [way for way in ways.values() if len(way) == shortest]


def busiest_link_of_all_to_all(axes):
    """Send one byte from every chip to every other, axis after axis; half each way if even."""
    load = Counter()
    chips = list(itertools.product(*(range(axis.length) for axis in axes)))
    for source, target in itertools.permutations(chips, 2):
        at = list(source)
        for number, axis in enumerate(axes):
            ways = steps(at[number], target[number], axis)
            for way in ways:
                for place, direction in way:
                    here = (*at[:number], place, *at[number + 1 :])
                    load[here, number, direction] += 1 / len(ways)
            at[number] = target[number]
    return max(load.values()), len(chips)


@pytest.mark.parametrize(
    "axes",
    [
        (ring(4),),
        (ring(8),),
        (line(4),),
        (ring(4), ring(4)),
        (line(4), line(2)),
        (line(4), line(1), ring(8)),
        (line(2), line(2), line(2)),
    ],
    ids=str,
)
def test_an_all_to_all_is_bound_by_its_busiest_link(axes):
    busiest, chips = busiest_link_of_all_to_all(axes)
    # Every chip holds one byte for each chip, itself included.
    assert collectives.link_bytes("all_to_all", axes, chips**2) == pytest.approx(busiest)


def busiest_link_of_all_gather(axis):
    """Halves of one byte go both ways around a ring; on a line the whole byte goes both ways."""
    load = Counter()
    for source in range(axis.length):
        for direction in (1, -1):
            for step in range(axis.length - 1):
                place = source + direction * step
                if axis.is_ring:
                    load[place % axis.length, direction] += 0.5
                elif 0 <= place + direction < axis.length:
                    load[place, direction] += 1.0
    return max(load.values())


@pytest.mark.parametrize("axis", [ring(4), ring(16), line(2), line(7)])
def test_an_all_gather_is_bound_by_its_busiest_link(axis):
    busiest = busiest_link_of_all_gather(axis)
    assert collectives.link_bytes("all_gather", (axis,), axis.length) == pytest.approx(busiest)


def ici_s(operation, axes, size_bytes=2**30):
    return chip.collective(operation, "v4", axes, size_bytes).terms["ici"]


def test_links_reach_a_share_of_their_rate():
    estimate = chip.collective("all_gather", "v4", (ring(4), line(2)), 2**30)
    at_peak_s = 2**30 * 7 / 8 / (2 + 1) / 45e9
    share = calibration.constants("v4").ici_efficiency
    assert estimate.terms["ici"] == pytest.approx(at_peak_s / share)
    assert at_peak_s <= estimate.low_s * (1 + 1e-12)


def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather():
    axes = chip.axes_of("v4-128")
    parts = ici_s("reduce_scatter", axes) + ici_s("all_gather", axes)
    assert ici_s("all_reduce", axes) == pytest.approx(parts)


def test_an_all_to_all_on_a_ring_takes_about_a_quarter_of_an_all_gather():
    axes = (ring(64),)
    assert ici_s("all_gather", axes) / ici_s("all_to_all", axes) == pytest.approx(4, rel=0.02)


@pytest.mark.parametrize(("topology", "published"), [("4x4x8", 1.63), ("4x8x8", 1.31)])
def test_twisting_speeds_up_an_all_to_all_alone(topology, published):
    """Jouppi et al., ISCA 2023."""
    plain, twisted = (chip.axes("v4", topology, is_twisted=each) for each in (False, True))
    assert ici_s("all_to_all", plain) / ici_s("all_to_all", twisted) == pytest.approx(published)
    assert ici_s("all_reduce", plain) == ici_s("all_reduce", twisted)


@pytest.mark.parametrize(
    ("mesh", "torus", "speed_up"),
    [
        ("v5litepod-64", "v5litepod-256", 2.0),  # 8x8 is open, 16x16 wraps on both axes
        ("v5litepod-64", "v5litepod-128", 1.5),  # 8x16 wraps on the long axis
        ("v4-64", "v4-128", 2.0),  # 2x4x4 is open, 4x4x4 is a cube
    ],
)
def test_wraparound_doubles_an_axis(mesh, torus, speed_up):
    times = [chip.all_reduce(each, 2**30).terms["ici"] for each in (mesh, torus)]
    assert times[0] / times[1] == pytest.approx(speed_up, rel=0.05)


def steps_of(operation, axes, **options):
    estimate = chip.collective(operation, "v4", axes, 0, **options)
    return estimate.terms["latency"] / calibration.constants("v4").collective_step_s


def test_a_small_all_reduce_costs_its_launch_and_its_steps():
    estimate = chip.all_reduce("v5litepod-16", 0)
    assert estimate.value_s == estimate.terms["launch"] + estimate.terms["latency"]
    step_s = calibration.constants("v5e").collective_step_s
    assert estimate.terms["latency"] == pytest.approx(2 * 15 * step_s)


def test_a_permute_goes_one_hop_and_on_an_open_axis_one_goes_back():
    assert steps_of("permute", (ring(8),)) == pytest.approx(1)
    assert steps_of("permute", (line(8),)) == pytest.approx(7)


@pytest.mark.parametrize(
    ("operation", "trips"),
    [("all_gather", 1), ("reduce_scatter", 1), ("all_to_all", 1), ("all_reduce", 2)],
)
def test_the_steps_are_of_one_ring_unless_they_follow_the_axes(operation, trips):
    axes = (ring(8), line(3))
    assert steps_of(operation, axes) == pytest.approx(trips * 23)
    assert steps_of(operation, axes, is_topology_aware=True) == pytest.approx(trips * (4 + 2))


@given(OPERATIONS, st.sampled_from(TYPES), SIZES)
def test_the_interval_reaches_down_to_steps_along_the_axes(operation, accelerator_type, size):
    generation = catalog.accelerator_type(accelerator_type).generation
    axes = chip.axes_of(accelerator_type)
    default, aware = (
        chip.collective(operation, generation, axes, size, is_topology_aware=each)
        for each in (False, True)
    )
    assert default.low_s <= aware.value_s <= default.value_s * (1 + 1e-12)
    assert default.terms["ici"] == aware.terms["ici"]


@given(OPERATIONS, st.integers(1, 63), SIZES)
def test_a_larger_group_starts_no_sooner(operation, length, size):
    smaller, larger = (
        chip.collective(operation, "v5e", (line(each),), size) for each in (length, length + 1)
    )
    assert smaller.terms["latency"] <= larger.terms["latency"]


@given(OPERATIONS, st.sampled_from(TYPES), SIZES, SIZES)
def test_a_larger_array_takes_no_less(operation, accelerator_type, one, other):
    generation = catalog.accelerator_type(accelerator_type).generation
    axes = chip.axes_of(accelerator_type)
    sizes = sorted([one, other])
    smaller, larger = (chip.collective(operation, generation, axes, size) for size in sizes)
    for figure in ("low_s", "value_s", "high_s"):
        assert getattr(smaller, figure) <= getattr(larger, figure)
    assert 0 <= larger.low_s <= larger.value_s <= larger.high_s < math.inf


@pytest.mark.parametrize("operation", collectives.OPERATIONS)
def test_a_single_chip_has_nobody_to_talk_to(operation):
    for size_bytes in (0, 2**30):
        estimate = chip.collective(operation, "v5e", (line(1),), size_bytes)
        assert (estimate.low_s, estimate.value_s, estimate.high_s) == (0.0, 0.0, 0.0)
        assert set(estimate.terms.values()) == {0.0}


def test_arrays_of_sizes_are_each_size_alone():
    sizes = [0, 2**10, 2**30]
    together = chip.all_reduce("v6e-16", np.array(sizes))
    assert together.value_s.tolist() == [chip.all_reduce("v6e-16", each).value_s for each in sizes]


def test_between_slices_each_chip_sums_its_part():
    inside, across = chip.all_reduce("v5litepod-16", 2**30), dcn_all_reduce(slices=2)
    # Half of the 64 MiB of a chip to the other slice and half back, at a share of 25 Gbit/s.
    share = calibration.constants("v5e").dcn_efficiency
    assert across.terms["dcn"] == pytest.approx(2**26 / 3.125e9 / share)
    assert across.value_s == inside.value_s + across.terms["dcn"]
    assert dcn_all_reduce(slices=1).value_s == inside.value_s
    assert any(source.startswith("dcn_efficiency: ") for source in across.sources)


def test_the_network_has_an_interval_of_its_own_down_to_its_peak():
    inside, across = chip.all_reduce("v5litepod-16", 2**30), dcn_all_reduce(slices=4)
    at_peak_s = 2 * 2**26 * 3 / 4 / 3.125e9
    assert across.low_s - inside.low_s == pytest.approx(at_peak_s, rel=2e-3)
    ratio = (across.high_s - inside.high_s) / across.terms["dcn"]
    assert ratio == pytest.approx(calibration.spread("dcn").high)


def dcn_all_reduce(slices):
    return chip.dcn_all_reduce("v5litepod-16", slices, 2**30)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: chip.all_reduce("v5litepod-16", -1), "not a size: -1"),
        (lambda: chip.collective("sum", "v5e", (), 1), "unknown operation 'sum'; one of: all_gat"),
        (lambda: dcn_all_reduce(slices=0), "a number of slices is below 1: 0"),
        (lambda: chip.dcn_all_reduce("v2-32", 2, 1), "no public figure of the network between"),
    ],
)
def test_what_cannot_be_estimated(ask, message):
    with pytest.raises(ValueError, match=message):
        ask()
