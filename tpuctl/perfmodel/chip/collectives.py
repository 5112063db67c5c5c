"""How long the chips of a slice exchange an array.

    launch + max(latency, wire)

V is the whole array in bytes, n the chips, W one link one way. The array is split over the axes in
proportion to their links, so their rates add up. V (n - 1) / n is the least that a chip can receive
(Patarasuk and Yuan, Journal of Parallel and Distributed Computing 69(2), 2009).

    all_gather, reduce_scatter   V (n - 1) / n over W x (2 links on a ring, 1 at an open end);
                                 V is what is gathered, or what each chip holds before
    all_reduce                   a reduce_scatter, then an all_gather; V is what each chip holds
    all_to_all                   what crosses the middle of the axis that is worst off; V is what
                                 all chips hold together
    permute                      V over one link; V is what each chip sends to the next
"""

from collections.abc import Mapping, Sequence
from math import prod
from types import MappingProxyType

from numpy.typing import ArrayLike

from tpuctl import catalog
from tpuctl.perfmodel.chip.calibration import Constants
from tpuctl.perfmodel.chip.numeric import Figure, maximum, size
from tpuctl.perfmodel.chip.torus import Axis

S_PER_HOP = 1e-6
"""About 1 us a hop: jax-ml/scaling-book, also ASTRA-sim's figure for v3. Not fitted."""

_TRIPS: Mapping[str, int] = MappingProxyType(
    {"all_gather": 1, "reduce_scatter": 1, "all_reduce": 2, "all_to_all": 1}
)
OPERATIONS = (*_TRIPS, "permute")


def terms(
    constants: Constants,
    chip: catalog.Chip,
    operation: str,
    axes: Sequence[Axis],
    size_bytes: ArrayLike,
) -> dict[str, Figure]:
    """Seconds of launch, latency and ici; all zero for a single chip.

    `size_bytes` is V, a number or an array. Raises ValueError for an operation or a size that
    cannot be.
    """
    if operation not in OPERATIONS:
        raise ValueError(f"unknown operation {operation!r}; one of: {', '.join(OPERATIONS)}")
    sizes = size(size_bytes)
    if prod(axis.length for axis in axes) == 1:
        return {"launch": 0.0, "latency": 0.0, "ici": 0.0 * sizes}
    wire_s = link_bytes(operation, axes, sizes) / chip.ici_bytes_per_s_per_link
    return {
        "launch": constants.collective_launch_s,
        "latency": _hops(operation, axes) * S_PER_HOP,
        "ici": wire_s / constants.ici_efficiency,
    }


def total(parts: Mapping[str, Figure]) -> Figure:
    """The seconds of the terms together: launch + max(latency, ici)."""
    return parts["launch"] + maximum(parts["latency"], parts["ici"])


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


def _hops(operation: str, axes: Sequence[Axis]) -> int:
    if operation == "permute":  # on an open axis the last one's goes back all the way
        return max(1 if axis.is_ring else axis.hops for axis in axes)
    return _TRIPS[operation] * sum(axis.hops for axis in axes)
