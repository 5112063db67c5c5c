"""Cycles of one weight-stationary systolic array of side x side multipliers.

Every side x side tile of the right matrix is loaded, then the m rows of the left one stream past.

    no overlap   load, stream, drain, tile after tile (SCALE-Sim, Samajdar et al., ISPASS 2020)
    overlap      the next weights are loaded while the rows stream, as in Google's MXUs

gemm.py's compute is the cycles with overlap, without the last drain; below `side` rows it counts
the rows alone, as it is then memory that a chip waits for.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def cycles(m: ArrayLike, k: ArrayLike, n: ArrayLike, side: int, *, overlap: bool) -> Any:
    """Cycles of [m, k] x [k, n]: an int, or an array where the sides broadcast to one.

    Raises ValueError when a side is below 1.
    """
    rows, depth, width = (np.asarray(each, np.int64) for each in (m, k, n))
    if min(rows.min(), depth.min(), width.min(), side) < 1:
        raise ValueError(f"a side is below 1: {m!r}, {k!r}, {n!r} on an array of {side}")
    tiles = -(-depth // side) * -(-width // side)
    if overlap:
        counted: NDArray[np.int64] = tiles * np.maximum(rows, side) + 2 * side - 2
    else:
        counted = tiles * (3 * side + rows - 2) - 1
    return counted if counted.ndim else int(counted)
