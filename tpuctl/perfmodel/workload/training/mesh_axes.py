"""Which axes of the slice each kind of parallelism lies on, and what its collectives cross.

A mesh is laid out as `jax.experimental.mesh_utils` does: the kinds that talk most are placed first,
each on an axis of its own length if there is one, else on what is left of the axes, the short ones
first. A kind that fills a ring has two links an axis, else one (`chip.torus`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tpuctl.perfmodel.chip.numeric import Figure
from tpuctl.perfmodel.chip.torus import Axis
from tpuctl.perfmodel.workload.parallelism import Parallelism
from tpuctl.perfmodel.workload.slice_hardware import SliceHardware

PLACED_FIRST = ("tensor", "sequence", "expert", "fsdp", "data", "pipeline")
"""The kinds inside a slice: what talks in every layer is nearest."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """How the devices of one kind of parallelism are joined.

    `gather_s_per_byte` is of a byte that every device receives in an all-gather, and of one that a
    reduce-scatter sends; `exchange_s_per_byte` is of a byte that a device sends in an all-to-all.
    """

    gather_s_per_byte: Figure
    exchange_s_per_byte: Figure


def crossings(hardware: SliceHardware, parallelism: Parallelism) -> Mapping[str, Crossing]:
    """The crossing of every kind of parallelism inside a slice, at the links' peak."""
    rate = hardware.device.ici_bytes_per_s_per_link
    axes = sorted(hardware.axes, key=lambda axis: axis.length)
    free = [np.asarray(axis.length, np.int64) for axis in axes]
    on_chip = np.asarray(hardware.devices_per_chip, np.int64)
    crossings = {}
    for kind in PLACED_FIRST:
        ways = np.asarray(getattr(parallelism, kind), np.int64)
        if ways.ndim == 0 and ways == 1:
            crossings[kind] = Crossing(1 / rate, 0.25 / rate)
            continue
        shared = np.gcd(ways, on_chip)
        ways, on_chip = ways // shared, on_chip // shared
        parts = _place(ways, free)
        free = [left // part for left, part in zip(free, parts, strict=True)]
        links, farthest = _links(axes, parts)
        # Devices of one chip share its links; between them they have at least one link's rate.
        shared_links = np.maximum(links, 1.0) * rate
        crossings[kind] = Crossing(1 / shared_links, np.maximum(farthest, 0.25) / rate)
    return crossings


def _place(ways: np.ndarray, free: list[np.ndarray]) -> list[np.ndarray]:
    """How much of every axis `ways` devices take: an axis of that length, else what divides."""
    parts = [np.ones_like(ways)] * len(free)
    for number, length in enumerate(free):
        whole = np.where(length == ways, ways, 1)
        parts[number] = parts[number] * whole
        ways = ways // whole
    for number, length in enumerate(free):
        part = np.gcd(ways, length // parts[number])
        parts[number] = parts[number] * part
        ways = ways // part
    return parts


def _links(axes: Sequence[Axis], parts: Sequence[np.ndarray]) -> tuple[Figure, Figure]:
    """Links that a gather receives over, and the longest way of an all-to-all over its links."""
    links: Figure = 0.0
    farthest: Figure = 0.0
    for axis, part in zip(axes, parts, strict=True):
        is_whole_ring = axis.is_ring & (part == axis.length)
        own = np.where(part == 1, 0.0, np.where(is_whole_ring, 2.0, 1.0))
        links = links + own
        farthest = np.maximum(farthest, np.where(part == 1, 0.0, part / (4 * np.maximum(own, 1))))
    return links, farthest
