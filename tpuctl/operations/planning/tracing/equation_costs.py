"""What one equation of a jaxpr computes and moves."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from tpuctl.operations.planning.tracing.device_share import Program, inner_jaxpr, side_ways
from tpuctl.operations.planning.tracing.kernels import Step, Value, moved_once

FORMATS = {"bfloat16": "bf16", "float16": "f16", "int8": "int8", "uint8": "int8", "int4": "int8"}
EXCHANGES = {
    **dict.fromkeys(("psum", "psum2", "psum_invariant", "pmax", "pmin"), "all_reduce"),
    **dict.fromkeys(("all_gather", "all_gather_invariant", "all_gather_reduced"), "all_gather"),
    **dict.fromkeys(("reduce_scatter", "psum_scatter", "unreduced_reduce_scatter"),
                    "reduce_scatter"),
    **dict.fromkeys(("all_to_all", "ragged_all_to_all"), "all_to_all"),
    **dict.fromkeys(("ppermute", "collective_permute", "psend", "precv"), "permute"),
}  # fmt: skip
"""Primitive of JAX -> operation of the chip model."""
MOVES = frozenset(("gather", "dynamic_slice", "take"))
UPDATES = frozenset(
    (
        "scatter",
        "scatter-add",
        "scatter_add",
        "scatter-mul",
        "scatter_mul",
        "scatter-min",
        "scatter_min",
        "scatter-max",
        "scatter_max",
        "dynamic_update_slice",
    )
)
OPAQUE = frozenset(
    (
        "pallas_call",
        "ffi_call",
        "custom_call",
        "custom_partitioning",
        "pure_callback",
        "io_callback",
        "fft",
        "cholesky",
        "triangular_solve",
        "eigh",
        "eig",
        "lu",
        "qr",
        "householder_product",
        "svd",
        "schur",
        "tridiagonal_solve",
        "approx_top_k",
    )
)
"""What is one kernel whose work the jaxpr does not show."""
SORTS = frozenset(("sort", "top_k"))


def described(program: Program, equation: Any, ins: list[Value], outs: list[Value]) -> Step:
    """The step of an equation that is one kernel."""
    name = str(equation.primitive)
    elements = sum(value.elements for value in outs)
    fields: dict[str, Any] = {"flops": elements}
    kind = "elementwise"
    if name in PRODUCTS:
        kind, fields = PRODUCTS[name](program, equation)
    elif name in EXCHANGES:
        kind, fields = "collective", exchange(program, equation, ins, outs)
    elif name.startswith(("reduce_", "arg", "cum")):
        kind, fields = "reduce", {"flops": sum(value.elements for value in ins)}
    elif name in MOVES:
        moved = sum(value.size_bytes for value in outs)
        kind, fields = "gather", {"read_bytes": moved, "written_bytes": moved}
    elif name in UPDATES:
        # The operand comes first, then an index or the update: what is not the operand moves.
        moved = min((value.size_bytes for value in ins[1:] if value.elements > 1), default=0.0)
        update = ins[1 if name == "dynamic_update_slice" else -1].size_bytes
        kind, fields = "gather", {"read_bytes": update + moved, "written_bytes": update}
    elif name in SORTS:
        rounds = math.log2(max(2.0, ins[0].elements)) ** 2 / 2
        kind, fields = "other", {**moved_once(ins, outs), "flops": ins[0].elements * rounds}
    elif name in OPAQUE or inner_jaxpr(equation.params) is not None:
        kind, fields = "other", opaque(program, equation, ins, outs)
    return Step(kind, name, ins, outs, fields)


def opaque(program: Program, equation: Any, ins: list[Value], outs: list[Value]) -> dict[str, Any]:
    """A kernel whose work is not seen; that of Pallas may say what it costs."""
    name = str(equation.primitive)
    cost = equation.params.get("cost_estimate")
    if cost is None:
        program.note(f"{name}: its work is not known; its arrays count once through memory")
        return moved_once(ins, outs)
    program.note(f"{name}: its own cost estimate is used, as work of the vector unit")
    return {
        "read_bytes": cost.bytes_accessed / program.share,
        "written_bytes": 0,
        "flops": cost.flops / program.share,
    }


def dot(program: Program, equation: Any) -> tuple[str, dict[str, Any]]:
    """A product of matrices: its sides and batch."""
    (contracted, _), (batched, _) = equation.params["dimension_numbers"]
    left, right = (atom.aval for atom in equation.invars[:2])
    dtype = product_dtype(program, equation, left, right)
    shapes, share = local_shapes(program, left, right)
    batch = math.prod(shapes[0][place] for place in batched)
    k = math.prod(shapes[0][place] for place in contracted)
    m, n = (math.prod(shape) / max(1, batch * k) for shape in shapes)
    sides = cut([m, n, batch], share)
    return "matmul", {"sides": [sides[0], k, sides[1]], "batch": sides[2], "dtype": dtype}


def local_shapes(program: Program, left: Any, right: Any) -> tuple[list[list[float]], float]:
    """The sides of two operands on one device, and into how many parts they still are to be cut."""
    ways = [side_ways(each) for each in (left, right)]
    if program.share == 1 or ways[0] is None or ways[1] is None:
        return [list(left.shape), list(right.shape)], program.share
    shapes = [
        [side / count for side, count in zip(each.shape, counts or (), strict=True)]
        for each, counts in zip((left, right), ways, strict=True)
    ]
    return shapes, 1.0


def summed_ways(program: Program, equation: Any) -> int:
    """Among how many devices the parts of a product are to be summed: its inner side is cut."""
    (contracted, _), _ = equation.params["dimension_numbers"]
    ways = side_ways(equation.invars[0].aval)
    if program.share == 1 or ways is None:
        return 1
    return math.prod(ways[place] for place in contracted)


def ragged(program: Program, equation: Any) -> tuple[str, dict[str, Any]]:
    """A product in which every row meets the matrix of its group only."""
    left, right = (atom.aval for atom in equation.invars[:2])
    m, k, n = left.shape[-2], left.shape[-1], right.shape[-1]
    sides = cut([m, n, 1], program.share)
    dtype = product_dtype(program, equation, left, right)
    return "matmul", {"sides": [sides[0], k, sides[1]], "batch": sides[2], "dtype": dtype}


def convolve(program: Program, equation: Any) -> tuple[str, dict[str, Any]]:
    """A convolution, in the fields of the model's own."""
    parameters = equation.params
    left, right = (atom.aval for atom in equation.invars[:2])
    numbers = parameters["dimension_numbers"]
    image = [left.shape[place] for place in numbers.lhs_spec]
    kernel = [right.shape[place] for place in numbers.rhs_spec]
    groups = parameters["batch_group_count"]
    images = cut([image[0] // groups, 1, 1], program.share)[0]
    shape = {
        "images": max(1, round(images)),
        "image": image[2:],
        "channels": image[1] * groups,
        "filters": kernel[0],
        "kernel": kernel[2:],
        "strides": parameters["window_strides"],
        "padding": parameters["padding"],
        "dilation": parameters["rhs_dilation"],
        "image_dilation": parameters["lhs_dilation"],
        "groups": parameters["feature_group_count"] * groups,
    }
    return "convolution", {
        "convolution": shape,
        "dtype": product_dtype(program, equation, left, right),
    }


PRODUCTS: Mapping[str, Callable[[Program, Any], tuple[str, dict[str, Any]]]] = {
    "dot_general": dot,
    "ragged_dot": ragged,
    "ragged_dot_general": ragged,
    "conv_general_dilated": convolve,
}


def cut(sides: list[float], share: float) -> list[float]:
    """Sides of which the first that can be divided is one device's part."""
    for place, side in enumerate(sides):
        if side % share == 0:
            return [*sides[:place], side / share, *sides[place + 1 :]]
    return [sides[0] / share, *sides[1:]]


def product_dtype(program: Program, equation: Any, left: Any, right: Any) -> str:
    """The format that the MXU multiplies: float32 is rounded to bfloat16 unless more is asked."""
    names = {str(left.dtype), str(right.dtype)}
    if all(name.startswith("float8") for name in names):
        return "fp8"
    formats = {FORMATS.get(name, "f32") for name in names}
    if len(formats) == 1 and formats != {"f32"}:
        return formats.pop()
    if not names <= {"float32", *FORMATS}:
        program.note(f"a product of {' and '.join(sorted(names))} is counted as one of float32")
        return "f32"
    precision = str(equation.params.get("precision")).upper()
    return "f32" if "HIGH" in precision or "F32_F32" in precision else "bf16"


def exchange(
    program: Program, equation: Any, ins: list[Value], outs: list[Value]
) -> dict[str, Any]:
    """What the devices along some axes of the mesh exchange."""
    operation = EXCHANGES[str(equation.primitive)]
    axes = equation.params.get("axes", equation.params.get("axis_name", ()))
    names = axes if isinstance(axes, (tuple, list)) else (axes,)
    ways = math.prod(program.axis_sizes.get(str(name), 1) for name in names)
    before, after = (sum(value.size_bytes for value in values) for values in (ins, outs))
    whole = {"all_gather": after, "all_to_all": before * ways}.get(operation, before)
    return {"exchange": operation, "ways": max(1, ways), "read_bytes": whole}
