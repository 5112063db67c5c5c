"""How long a chip multiplies matrices.

    launch + max(compute, memory) + exposed + conversion + retiling

compute: multiply-adds padded to whole tiles of the MXU, at its peak times what it reaches of it.
memory:  operands and result once through HBM; blocks that VMEM cannot keep are read again, which
         counts only where it takes longer than computing.
exposed: the first blocks are loaded and the last ones stored while nothing else can be done.
conversion: the MXU does not take float16; the vector unit converts it first. Of two TensorCores
         each takes half of the larger matrix and all of the smaller one, and converts both.
retiling: where the compiler chooses small tiles, an operand is converted again for each block of
         rows. Of large products with ragged sides about half are like that in public measurements;
         the choice is modelled, and the other one's time is told beside it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from numpy.typing import ArrayLike

from tpuctl import catalog
from tpuctl.perfmodel.chip import tiling
from tpuctl.perfmodel.chip.calibration import Constants
from tpuctl.perfmodel.chip.memory import conversion_s
from tpuctl.perfmodel.chip.numeric import (
    Figure,
    choose,
    figure,
    maximum,
    minimum,
    round_up,
    size,
)

LANES = 128
SUBLANES = 8
"""Rows stream in groups of 8; k and n fill whole sides of the MXU."""

F32_PASSES = 6
"""Products of bfloat16 parts that make one of float32: XLA's precision HIGHEST."""

PASSES: Mapping[str, int] = MappingProxyType({"default": 1, "high": 3, "highest": F32_PASSES})
"""jax.lax.Precision -> products of bfloat16 parts for one of float32 or float16."""

_DEFAULT_PRECISION: Mapping[str, str] = MappingProxyType({"f32": "highest", "f16": "default"})

RESULT_BYTES: Mapping[str, int] = MappingProxyType(
    {"bf16": 2, "f16": 2, "f32": 4, "int32": 4, "int8": 1, "fp8": 1}
)
"""Format of a result -> bytes of an element."""

LARGE_SIDE = 1_000
"""A ragged product whose sides are all longer has two modes; shorter ones have one."""

_SHALLOW = 1.4
"""Of m n over k squared: from here on the compiler chose small tiles in most of the public rows of
use `fitted` and `development` (docs/accuracy.md)."""


@dataclass(frozen=True, slots=True)
class OperandFormat:
    """The bytes of an element of an operand, and of an element of the result."""

    operand_bytes: int
    result_bytes: int


FORMATS: Mapping[str, OperandFormat] = MappingProxyType(
    {
        "bf16": OperandFormat(2, 2),
        "f16": OperandFormat(2, 2),
        "f32": OperandFormat(4, 4),
        "int8": OperandFormat(1, 4),
        "fp8": OperandFormat(1, 2),
    }
)


@dataclass(frozen=True, slots=True)
class MatmulWork:
    """`batch` products of matrices [m, k] x [k, n]; the arrays broadcast.

    `hbm_bytes` of operands and results cross HBM: all of them when it is None. `result_dtype` and
    `precision` (default, high, highest) are the operands' usual ones when they are None.
    """

    m: ArrayLike
    k: ArrayLike
    n: ArrayLike
    dtype: str = "bf16"
    batch: ArrayLike = 1
    hbm_bytes: ArrayLike | None = None
    result_dtype: str | None = None
    precision: str | None = None


def terms(constants: Constants, chip: catalog.Chip, work: MatmulWork) -> dict[str, Figure]:
    """Seconds of launch, compute, memory, reread, exposed, conversion and retiling.

    `compute` is how long the MXUs are busy; `reread` is what the size of VMEM adds to `memory`.
    Raises ValueError for a dtype, a precision or a size that cannot be.
    """
    form, side = _operand_format(work), chip.mxu_side
    m, k, n = (size(length, "matrix side") for length in (work.m, work.k, work.n))
    batch = size(work.batch, "batch")
    shared_bytes = batch * form.operand_bytes * minimum(m * k, k * n)
    all_bytes = batch * (form.operand_bytes * (m * k + k * n) + form.result_bytes * m * n)
    hbm_bytes = all_bytes if work.hbm_bytes is None else size(work.hbm_bytes)
    padded = round_up(m, SUBLANES) * round_up(k, side) * round_up(n, side)
    hbm_bytes_per_s = chip.hbm_bytes_per_s * constants.memory_efficiency
    flops_per_s = peak(chip, work.dtype, work.precision) * constants.compute_efficiency
    compute, memory = 2 * batch * padded / flops_per_s, hbm_bytes / hbm_bytes_per_s
    again = tiling.reread_share(chip, form.operand_bytes, (m, k, n), form.result_bytes)
    # Each TensorCore converts the smaller operands, which they share.
    converted_bytes = all_bytes + (chip.tensorcores - 1) * shared_bytes
    at_most = tiling.exposed_bytes(chip) / hbm_bytes_per_s
    return {
        "launch": constants.launch_s,
        "compute": compute,
        "memory": memory,
        "reread": memory * again,
        "exposed": minimum(minimum(compute, memory), at_most),
        "conversion": conversion_s(constants, work.dtype, converted_bytes),
        "retiling": _chosen_retiling_s(constants, work),
    }


def retiling_s(constants: Constants, work: MatmulWork) -> Figure:
    """Seconds that small tiles add: k n elements converted again for each block of rows.

    It is 0 for a product with one mode: see `has_two_modes`.
    """
    if not is_converted(constants, work.dtype):
        return 0.0
    m, k, n, batch = (figure(count) for count in (work.m, work.k, work.n, work.batch))
    again = FORMATS[work.dtype].operand_bytes * batch * k * n * m / constants.reconverted_rows
    return choose(is_large_and_ragged(work), conversion_s(constants, work.dtype, again), 0.0)


def _chosen_retiling_s(constants: Constants, work: MatmulWork) -> Figure:
    if not is_converted(constants, work.dtype):
        return 0.0
    return choose(chooses_small_tiles(work), retiling_s(constants, work), 0.0)


def is_converted(constants: Constants, dtype: str) -> bool:
    """Whether the vector unit takes time to convert operands: the products with two modes."""
    return dtype == "f16" and constants.conversion_bytes_per_s is not None


def is_large_and_ragged(work: MatmulWork) -> Any:
    """Whether all sides are over LARGE_SIDE, and some do not fill whole vectors."""
    return has_long_sides(work) & _inverted(is_regular(work))


def has_long_sides(work: MatmulWork) -> Any:
    """Whether all sides are over LARGE_SIDE."""
    return minimum(minimum(figure(work.m), figure(work.k)), figure(work.n)) > LARGE_SIDE


def chooses_small_tiles(work: MatmulWork) -> Any:
    """Whether the compiler is taken to choose small tiles: the result is large beside the depth."""
    m, k, n = figure(work.m), figure(work.k), figure(work.n)
    return m * n > _SHALLOW * k * k


def total(parts: Mapping[str, Figure]) -> Figure:
    """The seconds of the terms together.

    The longer of computing and moving counts, as in the roofline model (Williams, Waterman and
    Patterson, CACM 52(4), 2009).
    """
    longer = maximum(parts["compute"], parts["memory"] + parts["reread"])
    return parts["launch"] + longer + parts["exposed"] + parts["conversion"] + parts["retiling"]


def fast_total(parts: Mapping[str, Figure]) -> Figure:
    """The seconds with large tiles, whatever the compiler chooses."""
    return total({**parts, "retiling": 0.0})


def peak_seconds(constants: Constants, parts: Mapping[str, Figure]) -> Figure:
    """The seconds of the same work at the peaks: no chip of the generation takes less."""
    compute = parts["compute"] * constants.compute_efficiency
    return maximum(compute, parts["memory"] * constants.memory_efficiency)


def is_regular(work: MatmulWork) -> Any:
    """Whether m is a multiple of 8, and k and n of 128.

    Other sides may fall off a cliff of the compiler's tiling: their interval is wider.
    """
    m, k, n = figure(work.m), figure(work.k), figure(work.n)
    # Rounding up is several times as fast as numpy's remainder.
    return (round_up(m, SUBLANES) == m) & (round_up(k, LANES) == k) & (round_up(n, LANES) == n)


def peak(chip: catalog.Chip, dtype: str, precision: str | None = None) -> float:
    """Operations a second at the peak, two for a multiply-add.

    It is bfloat16's rate for a format that the MXU does not multiply. float32 and float16 are
    multiplied in as many passes as the precision asks: highest for f32, default for f16 if None.
    Raises ValueError for an unknown precision.
    """
    rates = {
        "bf16": chip.bf16_flops,
        "f16": chip.bf16_flops / passes("f16", precision),
        "f32": chip.bf16_flops / passes("f32", precision),
        "int8": chip.int8_ops or chip.bf16_flops,
        "fp8": chip.fp8_flops or chip.bf16_flops,
    }
    return rates[dtype]


def passes(dtype: str, precision: str | None) -> int:
    """Products of bfloat16 parts that make one of `dtype`; ValueError for an unknown precision."""
    chosen = precision or _DEFAULT_PRECISION.get(dtype, "default")
    if chosen not in PASSES:
        raise ValueError(f"unknown precision {chosen!r}; one of: {', '.join(PASSES)}")
    return PASSES[chosen] if dtype in _DEFAULT_PRECISION else 1


def _operand_format(work: MatmulWork) -> OperandFormat:
    if work.dtype not in FORMATS:
        raise ValueError(f"unknown dtype {work.dtype!r}; one of: {', '.join(FORMATS)}")
    form = FORMATS[work.dtype]
    if work.result_dtype is None:
        return form
    if work.result_dtype not in RESULT_BYTES:
        known = ", ".join(RESULT_BYTES)
        raise ValueError(f"unknown result dtype {work.result_dtype!r}; one of: {known}")
    return replace(form, result_bytes=RESULT_BYTES[work.result_dtype])


def _inverted(condition: Any) -> Any:
    return not condition if isinstance(condition, bool) else ~condition


def is_native(chip: catalog.Chip, dtype: str) -> bool:
    """Whether a public figure says that the MXU multiplies the format as it is."""
    known = {"bf16": chip.bf16_flops, "int8": chip.int8_ops, "fp8": chip.fp8_flops}
    return known.get(dtype) is not None
