"""Named axes over the chips of a slice, and collectives over one of them.

    grid = mesh.grid(data=4, model=4)
    sums = grid.all_reduce([array of each own chip], "data")

The last axis varies fastest: its groups are neighbouring chips, of one worker before of several.
Sums are in float32 (of whole numbers in int32), in an order that depends on nothing but the places
in the group (collectives/sums.py): the same bits on every chip, in every run, over however many
workers. All else is moved bit by bit: of a Buffer in fp8, the codes. All chips of the slice take
part in every collective.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from localsim.core.chip.chip import Chip
from localsim.core.collectives import deliveries, reductions, traffic
from localsim.core.collectives.entries import (
    Entries,
    cut_vector,
    join_parts,
    read_entries,
    split_parts,
)
from localsim.core.collectives.sums import Arrays
from localsim.core.collectives.team import AxisGroups, Team

_SUMS = ("all_reduce", "reduce_scatter")
_Sum = Callable[[Team, AxisGroups, Mapping[int, Arrays], DTypeLike], Mapping[int, NDArray[Any]]]


class Grid:
    """All chips of a slice by named axes; `by_chip` has one entry for each own chip.

    An entry is an array or a list of arrays, and so is what comes back; it cannot be written. The
    methods raise ValueError for arrays that do not go together, MeshError for a lost worker.
    """

    def __init__(
        self, accelerator_type: str, chips: Sequence[Chip], team: Team, sizes: Mapping[str, int]
    ) -> None:
        """Made by Mesh.grid; raises ValueError when the sizes do not multiply to the chips."""
        chip_count = len(chips) * team.exchange.worker_count
        self._words = " ".join(f"{axis}={size}" for axis, size in sizes.items())
        if math.prod(sizes.values()) != chip_count or min(sizes.values(), default=1) < 1:
            raise ValueError(f"a grid of {self._words} has not the slice's {chip_count} chips")
        self._accelerator_type = accelerator_type
        self._chips = chips
        self._team = team
        self._lines: dict[str, AxisGroups] = {}
        stride = 1
        for axis, size in reversed(list(sizes.items())):
            self._lines[axis] = AxisGroups(size, stride)
            stride *= size

    def size(self, axis: str) -> int:
        """Return how many chips a group along an axis has."""
        return self._line(axis).size

    def index(self, own_chip: int, axis: str) -> int:
        """Return the place along an axis of chip number `own_chip` of this worker."""
        return self._line(axis).place(self._team.chips[own_chip])

    def all_reduce(self, by_chip: Sequence[Any], axis: str) -> list[Any]:
        """Return for each own chip the sum over its group along the axis, of the arrays' shape."""
        given, line = self._begin("all_reduce", by_chip, axis)
        return self._add("all_reduce", reductions.all_reduce, given, line)

    def reduce_scatter(self, by_chip: Sequence[Any], axis: str, dim: int = 0) -> list[Any]:
        """Return for each own chip its part, by place, of the group's sum split along `dim`."""
        given, line = self._begin("reduce_scatter", by_chip, axis, dim=dim)
        given.check_dim(dim, parts=line.size)
        return self._add("reduce_scatter", reductions.reduce_scatter, given, line, dim)

    def all_gather(self, by_chip: Sequence[Any], axis: str, dim: int = 0) -> list[Any]:
        """Return for each own chip the arrays of its group joined along `dim` by place."""
        given, line = self._begin("all_gather", by_chip, axis, dim=dim)
        given.check_dim(dim)
        gathered = deliveries.all_gather(self._team, line, given.arrays)
        whole = {line.group(chip): chip for chip in gathered}
        joint = {group: join_parts(gathered[chip], dim) for group, chip in whole.items()}
        self._charge("all_gather", given, line)
        return given.back({chip: joint[line.group(chip)] for chip in gathered})

    def all_to_all(
        self, by_chip: Sequence[Any], axis: str, split: int = 0, concat: int = 0
    ) -> list[Any]:
        """Send part i along `split` to place i; join what comes along `concat` by place."""
        given, line = self._begin("all_to_all", by_chip, axis, split=split, concat=concat)
        given.check_dim(split, parts=line.size)
        given.check_dim(concat)
        parcels = {chip: split_parts(each, line.size, split) for chip, each in given.arrays.items()}
        received = deliveries.all_to_all(self._team, line, parcels)
        self._charge("all_to_all", given, line)
        return given.back({chip: join_parts(each, concat) for chip, each in received.items()})

    def permute(self, by_chip: Sequence[Any], axis: str, shift: int = 1) -> list[Any]:
        """Return what the chip `shift` places before gives, around the end of the axis."""
        given, line = self._begin("permute", by_chip, axis, shift=shift)
        received = deliveries.permute(self._team, line, given.arrays, shift)
        self._charge("permute", given, line, hops=min(shift % line.size, -shift % line.size))
        return given.back(received)

    def _line(self, axis: str) -> AxisGroups:
        if axis not in self._lines:
            raise ValueError(f"no axis {axis!r} in a grid of {self._words}")
        return self._lines[axis]

    def _begin(
        self, operation: str, by_chip: Sequence[Any], axis: str, **how: int
    ) -> tuple[Entries, AxisGroups]:
        """Read what the own chips give, and begin a collective of that type on all workers."""
        line = self._line(axis)
        given = read_entries(by_chip, self._team.chips, adds=operation in _SUMS)
        details = "".join(f" {name}={value}" for name, value in how.items())
        self._team.exchange.begin(
            f"{operation} over {axis} of {self._words}{details}: {given.words}"
        )
        return given, line

    def _add(
        self,
        operation: str,
        collective: _Sum,
        given: Entries,
        line: AxisGroups,
        dim: int | None = None,
    ) -> list[Any]:
        """Carry out a sum of arrays that are laid in one vector for each dtype.

        With `dim` the vector has the arrays' parts along it, place after place.
        """
        if line.size == 1:
            return given.back(given.alone())
        count = 1 if dim is None else line.size
        got: dict[int, list[Any]] = {chip: list(given.example) for chip in given.arrays}
        for kind, numbers in given.kinds():
            by_place = {
                chip: split_parts([arrays[each] for each in numbers], count, dim or 0)
                for chip, arrays in given.arrays.items()
            }
            shapes = [each.shape for each in by_place[self._team.chips[0]][0]]
            laid = {chip: list(chain.from_iterable(each)) for chip, each in by_place.items()}
            with np.errstate(all="ignore"):  # infinities and NaNs pass without a word
                vectors = collective(self._team, line, laid, kind)
            for chip, vector in vectors.items():
                for number, array in zip(numbers, cut_vector(vector, shapes), strict=True):
                    got[chip][number] = array
        self._charge(operation, given, line)
        return given.back(got)

    def _charge(self, operation: str, given: Entries, line: AxisGroups, hops: int = 1) -> None:
        for number, chip in enumerate(self._chips):
            group = line.group(self._team.chips[number])
            chip.charge(
                traffic.collective_cost(
                    self._accelerator_type, operation, group, given.size_bytes, hops
                )
            )
