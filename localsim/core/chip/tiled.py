"""A matmul as a kernel does it, tile by tile: the numbers; pipeline.py has the time."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from localsim.core.chip import buffers, mxu, operands, pipeline
from localsim.core.chip.buffers import Buffer
from localsim.core.chip.chip import Chip

Sides = tuple[int, int, int]
"""m, k and n."""


class Tile(NamedTuple):
    """One multiplication: left[rows, depth] x right[depth, columns]."""

    rows: slice
    depth: slice
    columns: slice
    is_last: bool
    """Whether it is the last of its block of the result, which is then complete."""

    @property
    def sides(self) -> Sides:
        """The tile's m, k and n."""
        m, k, n = (side.stop - side.start for side in (self.rows, self.depth, self.columns))
        return m, k, n


def matmul(chip: Chip, left: Buffer, right: Buffer, side: Sides) -> NDArray[Any]:
    """Multiply Buffers [m, k] x [k, n] in HBM by tiles of `side` to float32 (int8: int32).

    The products of a block are added in the order of their depth. Raises TypeError, ValueError, and
    MemoryFullError where the tiles are too large for VMEM.
    """
    left, right = operands.require_buffer(left), operands.require_buffer(right)
    (_, m, k, n), shape = operands.product_shape(left.shape, right.shape)
    formats = left.dtype, right.dtype
    if not left.memory is right.memory is chip.hbm:
        raise ValueError(f"{left!r} and {right!r} are not in HBM of this chip")
    if len(shape) > 2 or min(side) < 1:
        raise ValueError(f"no tiles of {side} for shapes {left.shape} x {right.shape}")
    chip.vmem.make_room(_vmem_bytes(chip, formats, side), f"two tiles of {side} at a time")
    result = np.zeros(shape, np.int32 if left.dtype == "int8" else np.float32)
    plan = list(tiles((m, k, n), side))
    with chip.executions:
        for tile in plan:
            parts = left.values[tile.rows, tile.depth], right.values[tile.depth, tile.columns]
            result[tile.rows, tile.columns] += mxu.matmul(*parts, formats=formats)
    work = [
        pipeline.tile_work(chip.generation, each.sides, formats, is_last=each.is_last)
        for each in plan
    ]
    chip.charge(pipeline.kernel_cost(chip.generation, work, left.dtype))
    return result


def tiles(shape: Sides, side: Sides) -> Iterator[Tile]:
    """Yield the tiles block by block, along the depth of each; those at edges are smaller."""
    m, k, n = (list(_cut(*each)) for each in zip(shape, side, strict=True))
    for rows in m:
        for columns in n:
            for depth in k:
                yield Tile(rows, depth, columns, is_last=depth.stop == shape[1])


def _cut(length: int, part: int) -> Iterator[slice]:
    for start in range(0, length, part):
        yield slice(start, min(start + part, length))


def _vmem_bytes(chip: Chip, formats: tuple[str, str], side: Sides) -> int:
    """Two tiles of each operand, two products and two blocks of the result."""
    m, k, n = side
    arrays = ((m, k), formats[0]), ((k, n), formats[1]), ((m, n), "f32"), ((m, n), "f32")
    return 2 * sum(buffers.allocated_bytes(shape, dtype, chip.vmem) for shape, dtype in arrays)
