"""The axes of a slice: the chips along each, and whether its ends are joined.

v4, v5p, tpu7x join them only on whole cubes of 4x4x4; v5e and v6e an axis of 16; of v2 and v3 it is
known of whole pods only, so an axis of 16 and of 32 is taken to be joined.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tpuctl import catalog

_CUBE_SIDE = 4

_TWIST: Mapping[tuple[float, ...], float] = MappingProxyType({(1, 1, 2): 1.63, (1, 2, 2): 1.31})
"""Shape of a torus that can be twisted -> all-to-all over the plain one (isca23, on v4)."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a torus or mesh; `twist` is how much faster an all-to-all crosses it twisted."""

    length: int
    is_ring: bool
    twist: float = 1.0

    @property
    def links(self) -> int:
        """The links over which the slowest chip receives: the end of an open axis has one."""
        if self.length == 1:
            return 0
        return 2 if self.is_ring else 1

    @property
    def hops(self) -> int:
        """The hops from a chip to the farthest one on the axis."""
        return self.length // 2 if self.is_ring else self.length - 1


def axes_of(accelerator_type: str) -> tuple[Axis, ...]:
    """The axes of the whole slice of an accelerator type; raises catalog.UnknownError."""
    kind = catalog.accelerator_type(accelerator_type)
    return axes(kind.generation, kind.topology)


def axes(generation: str, topology: str, *, is_twisted: bool = False) -> tuple[Axis, ...]:
    """The axes of a topology such as `4x4x8`, in its order.

    Raises catalog.UnknownError, and ValueError for what is not a topology or cannot be twisted.
    """
    ring_length = catalog.generation(generation).ring_length
    lengths = _lengths(topology)
    are_cubes = ring_length is None and all(length % _CUBE_SIDE == 0 for length in lengths)
    twist = _twist(topology, lengths, are_cubes=are_cubes) if is_twisted else 1.0
    return tuple(
        Axis(length, are_cubes or length == ring_length, twist if length == max(lengths) else 1.0)
        for length in lengths
    )


def _lengths(topology: str) -> tuple[int, ...]:
    parts = topology.split("x")
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise ValueError(f"not a topology such as 4x4 or 4x4x8: {topology!r}")
    return tuple(map(int, parts))


def _twist(topology: str, lengths: tuple[int, ...], *, are_cubes: bool) -> float:
    shortest, *others = sorted(lengths)
    ratios = tuple(length / shortest for length in (shortest, *others))
    if not are_cubes or ratios not in _TWIST:
        raise ValueError(f"only n x n x 2n and n x 2n x 2n of whole cubes twist, not {topology}")
    return _TWIST[ratios]
