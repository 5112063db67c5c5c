"""The matrix unit: bfloat16 operands, float32 products and sums."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from localsim.core.numerics import F32, bfloat16


def matmul(left: NDArray[Any], right: NDArray[Any]) -> F32:
    """Round both operands to bfloat16, multiply exactly, add in float32."""
    # Infinities and NaNs pass through the unit without a word.
    with np.errstate(invalid="ignore", over="ignore"):
        product: F32 = np.matmul(bfloat16(left), bfloat16(right))
    return product
