"""Matrix products as a TPU makes them by default: float32 operands rounded to bfloat16.

The products are summed and given in float32. A precision that a program asks for by name is left
alone, and so is everything that is not a matrix product. The lowering is JAX's own, reached by a
private name: it is replaced only in versions in which that was tested.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

SWITCH = "LOCALSIM_TPU_NUMERICS"
TESTED = ("0.9.2", "0.10.0", "0.10.1", "0.10.2", "0.11.0", "0.11.1", "0.11.2", "0.12.0", "0.12.0.1")
_BFLOAT16_BITS = (8, 7)
"""The bits of the exponent and of the mantissa."""


def install(lax: ModuleType) -> None:
    """Replace the lowering when the job asks for it; raises SystemExit for an untested JAX."""
    if os.environ.get(SWITCH, "") in ("", "0"):
        return
    version = sys.modules["jax.version"].__version__
    if version not in TESTED:
        raise SystemExit(
            f"{SWITCH} is tested with JAX {', '.join(TESTED)}, not {version}: install one of these,"
            " or run without it"
        )
    try:
        _replace(lax)
    except Exception as error:  # noqa: BLE001 -- better none than others
        raise SystemExit(f"{SWITCH}: {type(error).__name__}: {error}") from None


def _replace(lax: Any) -> None:
    import numpy as np

    mlir: Any = lax.mlir
    default, preset = lax.Precision.DEFAULT, lax.DotAlgorithmPreset.DEFAULT
    defaults = (None, (default, default), preset)
    original = lax._dot_general_lower  # noqa: SLF001

    def rounded(value: Any) -> Any:
        return mlir.hlo.reduce_precision(value, *map(mlir.i32_attr, _BFLOAT16_BITS))

    def lower(ctx: Any, lhs: Any, rhs: Any, *, precision: Any, **parameters: Any) -> Any:
        is_float32 = all(operand.dtype == np.float32 for operand in ctx.avals_in)
        if is_float32 and precision in defaults:
            lhs, rhs = rounded(lhs), rounded(rhs)
        return original(ctx, lhs, rhs, precision=precision, **parameters, platform="cpu")

    mlir.register_lowering(lax.dot_general_p, lower, platform="cpu")
