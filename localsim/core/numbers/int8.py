"""8-bit integers in place of real numbers: value = scale x integer."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from localsim.core.numbers.numerics import F32, float32

_LEAST, _GREATEST = -128, 127


def int8_scale(values: Any, axis: int | tuple[int, ...] | None = None) -> F32:
    """The scale at which the greatest finite magnitude along `axis` is 127; the axes stay.

    1 where there are only zeros.
    """
    magnitude = np.abs(float32(values))
    finite = np.where(np.isfinite(magnitude), magnitude, np.float32(0))
    scale = finite.max(axis=axis, keepdims=True, initial=0) / np.float32(_GREATEST)
    return np.where(scale == 0, np.float32(1), scale)


def quantize_int8(values: Any, scale: F32 | float) -> NDArray[np.int8]:
    """values / scale, divided in float32, to the nearest integer: ties to even, -128 to 127.

    A NaN becomes 0, as where XLA converts to integers. Raises ValueError for a scale that is not
    positive and finite.
    """
    divisor = float32(scale)
    if not (np.isfinite(divisor) & (divisor > 0)).all():
        raise ValueError("a scale is positive and finite")
    with np.errstate(over="ignore", under="ignore"):
        quotient = np.asarray(float32(values) / divisor)
    np.rint(quotient, out=quotient)
    # Before the conversion, which would wrap around.
    np.clip(quotient, _LEAST, _GREATEST, out=quotient)
    np.copyto(quotient, 0, where=np.isnan(quotient))
    return quotient.astype(np.int8)
