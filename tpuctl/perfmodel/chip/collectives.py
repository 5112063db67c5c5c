"""How long the chips of a slice exchange an array.

    launch + steps x seconds of a step + bytes over the busiest link / its rate

That is the model of latency and bandwidth of Thakur, Rabenseifner and Gropp (Int. J. of High
Performance Computing Applications 19(1), 2005). V is the whole array in bytes, n the chips, W one
link one way. The array is split over the axes in proportion to their links, so their rates add up.
V (n - 1) / n is the least that a chip can receive (Patarasuk and Yuan, Journal of Parallel and
Distributed Computing 69(2), 2009).

    all_gather, reduce_scatter   n - 1 steps; V (n - 1) / n over W x (2 links on a ring, 1 at an
                                 open end); V is what is gathered, or what each chip holds before
    all_reduce                   a reduce_scatter, then an all_gather; V is what each chip holds
    all_to_all                   n - 1 steps; what crosses the middle of the axis that is worst off;
                                 V is what all chips hold together
    permute                      a step for each hop; V over one link; V is what each chip sends to
                                 the next

The steps are those of one ring through all n chips. What is public of groups of 4, 16 and 256 chips
grows like that, and not with the length of the axes: that is what a program gets by default. Where
the mesh is laid along the axes and the steps follow them, they are as many as the hops to the
farthest chip of each axis.

Between slices a chip sums its part with one chip of each other slice, over its host's network.
"""

from collections.abc import Mapping, Sequence
from math import prod
from types import MappingProxyType

from numpy.typing import ArrayLike

from tpuctl import catalog
from tpuctl.perfmodel.chip.calibration import Constants
from tpuctl.perfmodel.chip.numeric import Figure, size
from tpuctl.perfmodel.chip.torus import Axis

S_PER_HOP = 1e-6
"""About 1 us a hop: jax-ml/scaling-book, also ASTRA-sim's figure for v3. Where no row tells what a
step takes, it is this."""

CONSTANTS = ("launch_s", "collective_step_s", "ici_efficiency")
"""The fitted constants of a collective within a slice."""

_TRIPS: Mapping[str, int] = MappingProxyType(
    {"all_gather": 1, "reduce_scatter": 1, "all_reduce": 2, "all_to_all": 1}
)
OPERATIONS = (*_TRIPS, "permute")


def terms(  # noqa: PLR0913 (who, what, where and how much)
    constants: Constants,
    chip: catalog.Chip,
    operation: str,
    axes: Sequence[Axis],
    size_bytes: ArrayLike,
    *,
    is_topology_aware: bool = False,
) -> dict[str, Figure]:
    """Seconds of launch, latency (all steps) and ici; all zero for a single chip.

    `size_bytes` is V, a number or an array. Raises ValueError for an operation or a size that
    cannot be.
    """
    if operation not in OPERATIONS:
        raise ValueError(f"unknown operation {operation!r}; one of: {', '.join(OPERATIONS)}")
    sizes = size(size_bytes)
    if prod(axis.length for axis in axes) == 1:
        return {"launch": 0.0, "latency": 0.0, "ici": 0.0 * sizes}
    wire_s = link_bytes(operation, axes, sizes) / chip.ici_bytes_per_s_per_link
    count = step_count(operation, axes, is_topology_aware=is_topology_aware)
    return {
        "launch": constants.launch_s,
        "latency": count * constants.collective_step_s,
        "ici": wire_s / constants.ici_efficiency,
    }


def dcn_terms(
    constants: Constants, chip: catalog.Chip, slices: int, size_bytes: ArrayLike
) -> dict[str, Figure]:
    """Seconds of dcn: a chip sums `size_bytes` with the same chip of every other slice.

    2 V (s - 1) / s over the chip's share of its host's network. Raises ValueError for a number of
    slices that cannot be, and where the network's rate is not public.
    """
    if slices < 1:
        raise ValueError(f"a number of slices is below 1: {slices}")
    if chip.dcn_bytes_per_s is None:
        raise ValueError("no public figure of the network between slices")
    sent_bytes = 2 * size(size_bytes) * (slices - 1) / slices
    return {"dcn": sent_bytes / (chip.dcn_bytes_per_s * constants.dcn_efficiency)}


def total(parts: Mapping[str, Figure]) -> Figure:
    """The seconds of the terms together: launch + latency + ici."""
    return parts["launch"] + parts["latency"] + parts["ici"]


def link_bytes(operation: str, axes: Sequence[Axis], sizes: Figure) -> Figure:
    """Bytes over the busiest link, one way, for arrays of `sizes` bytes."""
    chips = prod(axis.length for axis in axes)
    if operation == "permute":
        return sizes
    if operation == "all_to_all":
        # Half of the chips send half of what they have over the middle: V / 4 each way, over
        # chips / length places, each with 2 links on a ring, 1 on a line.
        worst = max(axis.length / (4 * axis.links * axis.twist) for axis in axes if axis.links)
        return sizes * worst / chips
    return _TRIPS[operation] * sizes * (chips - 1) / chips / sum(axis.links for axis in axes)


def step_count(operation: str, axes: Sequence[Axis], *, is_topology_aware: bool = False) -> int:
    """Messages that follow each other: around one ring of all chips, or along each axis."""
    if operation == "permute":  # on an open axis the last one's goes back all the way
        return max(1 if axis.is_ring else axis.hops for axis in axes)
    if is_topology_aware:
        return _TRIPS[operation] * sum(axis.hops for axis in axes)
    return _TRIPS[operation] * (prod(axis.length for axis in axes) - 1)
