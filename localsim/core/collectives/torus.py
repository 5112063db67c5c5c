"""Where the chips of a slice are, and which links a group of them has among itself."""

from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import NamedTuple

from tpuctl import catalog
from tpuctl.perfmodel import chip as model

HOST_BOUNDS = {1: (1, 1, 1), 4: (2, 2, 1), 8: (2, 4, 1)}
"""Chips of a host -> how many of them lie along x, y and z."""


class TorusSpan(NamedTuple):
    """The part of the torus that a group of chips sends over.

    `sharing` groups lie within each other, and have its links in common.
    """

    axes: tuple[model.Axis, ...]
    sharing: int


def coordinates(accelerator_type: str, chip: int) -> tuple[int, int, int]:
    """Where chip number `chip` of a slice is: x, y, z.

    Within a host x counts fastest, and so it does from host to host: the bounds that the metadata
    server tells as CHIPS_PER_HOST_BOUNDS and HOST_BOUNDS.
    """
    kind = catalog.accelerator_type(accelerator_type)
    if not 0 <= chip < kind.chips:
        raise ValueError(f"{accelerator_type} has {kind.chips} chips, no chip {chip}")
    host_x, host_y, _ = bounds = HOST_BOUNDS[kind.chips_per_worker]
    hosts_x, hosts_y, _ = (
        whole // part for whole, part in zip(_lengths(kind.topology), bounds, strict=True)
    )
    host, inner = divmod(chip, kind.chips_per_worker)
    return (
        host % hosts_x * host_x + inner % host_x,
        host // hosts_x % hosts_y * host_y + inner // host_x % host_y,
        host // (hosts_x * hosts_y),
    )


@lru_cache(4096)
def torus_span(accelerator_type: str, chips: range) -> TorusSpan:
    """The links that a group uses: along each axis as many chips as it has different places there.

    A group that goes around a closed axis is a ring. A group with gaps sends through chips of other
    groups, which do the same: their messages share the links. So do those of one that fills no box.
    """
    kind = catalog.accelerator_type(accelerator_type)
    closed = [axis.is_ring for axis in model.axes(kind.generation, kind.topology)]
    places = [coordinates(accelerator_type, chip) for chip in chips]
    axes, sharing = [], 1
    for axis, length in enumerate(_lengths(kind.topology)):
        used = sorted({place[axis] for place in places})
        gap = max((after - before for before, after in pairwise(used)), default=1)
        is_ring = axis < len(closed) and closed[axis] and len(used) * gap == length
        axes.append(model.Axis(len(used), is_ring))
        sharing = max(sharing, gap)
    box = prod(axis.length for axis in axes)
    return TorusSpan(tuple(axes), sharing * -(-box // len(chips)))


def _lengths(topology: str) -> tuple[int, int, int]:
    x, y, z = (*map(int, topology.split("x")), 1)[:3]
    return x, y, z
