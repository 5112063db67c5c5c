"""Number formats of a TPU, as float32 arrays that hold no other values."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]

_KEPT = np.uint32(0xFFFF0000)
_HALF_LESS_ONE = np.uint32(0x7FFF)
_QUIET = np.uint32(0x00400000)


def bfloat16(values: NDArray[Any]) -> F32:
    """Round to bfloat16, to nearest, ties to even; the low 16 bits of each result are clear."""
    exact = np.asarray(values, np.float32)
    bits = exact.view(np.uint32)
    # A carry out of the dropped half rounds up; the lowest kept bit breaks the tie.
    rounded = bits >> 16
    rounded &= 1
    rounded += _HALF_LESS_ONE
    rounded += bits
    rounded &= _KEPT
    is_nan = np.isnan(exact)
    if is_nan.any():
        # The carry would turn some NaNs into infinities or zeros.
        rounded = np.where(is_nan, (bits | _QUIET) & _KEPT, rounded)
    return rounded.view(np.float32)
