"""From a jaxpr, the program that JAX makes of a function, to the operations of one device."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tpuctl.operations.planning.tracing.device_share import Program, array, inner_jaxpr
from tpuctl.operations.planning.tracing.equation_costs import OPAQUE, described, summed_ways
from tpuctl.operations.planning.tracing.kernels import Scope, Step, Value, held_bytes, operations_of

ALIASES = frozenset(
    (
        "broadcast_in_dim",
        "reshape",
        "squeeze",
        "expand_dims",
        "transpose",
        "stop_gradient",
        "copy",
        "name",
        "pvary",
        "pbroadcast",
        "sharding_constraint",
        "mesh_cast",
        "optimization_barrier",
        "reduce_precision",
        "bitcast_convert_type",
        "copy_p",
        "layout_constraint",
        "rev",
    )
)
"""What XLA does on the way into the kernel that reads the result."""
SOURCES = frozenset(("iota", "axis_index", "create_token", "empty", "rng_bit_generator_state"))
RATIO = 100.0
"""Operations that take as long as a byte of HBM, where branches are compared."""


def walk(program: Program, jaxpr: Any, inputs: Sequence[Value], scope: Scope) -> list[Value]:
    """Append the steps of a jaxpr to a scope; the values of its results."""
    values: dict[Any, Value] = dict(zip(jaxpr.invars, inputs, strict=True))
    for variable in jaxpr.constvars:
        values[variable] = array(program, variable.aval)

    def read(atom: Any) -> Value:
        return Value() if hasattr(atom, "val") else values[atom]

    for equation in jaxpr.eqns:
        ins = [read(atom) for atom in equation.invars]
        outs = append(program, equation, ins, scope)
        values.update(zip(equation.outvars, outs, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def walk_scope(
    program: Program, jaxpr: Any, entering: Sequence[Value], scope: Scope
) -> tuple[list[Value], float]:
    """Walk a jaxpr that is a scope of its own, and add its operations to the program.

    Its results come back, and the bytes that it holds beside its inputs.
    """
    results = written(program, jaxpr, walk(program, jaxpr, entering, scope), scope)
    program.operations += operations_of(scope, results)
    return results, held_bytes(scope.steps, {id(value) for value in entering})


def written(program: Program, jaxpr: Any, values: Sequence[Value], scope: Scope) -> list[Value]:
    """The results as they stand in memory: what no kernel makes, such as zeros, is written.

    XLA makes constants and broadcasts on the way into the kernel that reads them, and no kernel
    reads a result.
    """
    results = []
    for atom, value in zip(jaxpr.outvars, values, strict=True):
        whole = array(program, atom.aval)
        if value.size_bytes < whole.size_bytes:
            add_step(
                scope, Step("elementwise", "write", [value], [whole], {"flops": whole.elements})
            )
            results.append(whole)
        else:
            results.append(value)
    return results


def append(program: Program, equation: Any, ins: list[Value], scope: Scope) -> list[Value]:
    """Append what one equation does; the values of its results."""
    name, parameters = str(equation.primitive), equation.params
    if handler := CONTROL.get(name):
        return handler(program, equation, ins, scope)
    inner = inner_jaxpr(parameters)
    if inner is not None and name not in OPAQUE and len(inner.invars) == len(ins):
        return walk(program, inner, ins, scope)
    outs = [array(program, variable.aval) for variable in equation.outvars]
    if name in SOURCES or not outs:
        return [Value(elements=out.elements) for out in outs]
    if name in ALIASES:
        return [*ins[: len(outs)]] if len(ins) >= len(outs) else outs
    add_step(scope, described(program, equation, ins, outs))
    if name == "dot_general" and (ways := summed_ways(program, equation)) > 1:
        return [exchanged(scope, "all_reduce", outs[0], outs[0], ways)]
    return outs


def add_step(scope: Scope, step: Step) -> None:
    """Append a step that makes its results."""
    scope.steps.append(step)
    for out in step.outs:
        out.producer = step


def exchanged(scope: Scope, operation: str, before: Value, like: Value, ways: int) -> Value:
    """The array after devices exchanged their parts of it, as explicit sharding asks."""
    after = Value(like.size_bytes, like.elements)
    fields = {"exchange": operation, "ways": ways, "read_bytes": like.size_bytes}
    add_step(scope, Step("collective", operation, [before], [after], fields))
    return after


def reshard(program: Program, equation: Any, ins: list[Value], scope: Scope) -> list[Value]:
    """Another explicit sharding: larger parts are gathered; smaller ones are there already."""
    after = array(program, equation.outvars[0].aval)
    ways = round(after.elements / ins[0].elements) if ins[0].elements else 1
    return [exchanged(scope, "all_gather", ins[0], after, ways)] if ways > 1 else ins[:1]


def scan(program: Program, equation: Any, ins: list[Value], scope: Scope) -> list[Value]:
    """A loop that is known to run `length` times."""
    parameters = equation.params
    inner = Scope(scope.count * parameters["length"])
    return loop(program, equation, parameters["jaxpr"].jaxpr, ins, (scope, inner))


def while_loop(program: Program, equation: Any, ins: list[Value], scope: Scope) -> list[Value]:
    """A loop whose count nobody knows before it runs: it counts once, and the result says so."""
    program.note("a while loop counts once: how often it runs is not known before it runs")
    skipped = equation.params["cond_nconsts"]
    inner = Scope(scope.count)
    body = equation.params["body_jaxpr"].jaxpr
    return loop(program, equation, body, ins[skipped:], (scope, inner))


def loop(
    program: Program, equation: Any, body: Any, ins: list[Value], scopes: tuple[Scope, Scope]
) -> list[Value]:
    """Walk a body in a scope of its own; in the outer scope it is one step without a cost."""
    outer, inner = scopes
    entering = [array(program, variable.aval) for variable in body.invars]
    _, extra_bytes = walk_scope(program, body, entering, inner)
    outs = [array(program, variable.aval) for variable in equation.outvars]
    add_call(outer, str(equation.primitive), (ins, outs), extra_bytes)
    return outs


def branch(program: Program, equation: Any, ins: list[Value], scope: Scope) -> list[Value]:
    """A choice: the branch that takes longest counts."""
    before = program.operations
    candidates: list[tuple[float, float, list[dict[str, Any]]]] = []
    for closed in equation.params["branches"]:
        program.operations, inner = [], Scope(scope.count)
        entering = [array(program, variable.aval) for variable in closed.jaxpr.invars]
        _, extra_bytes = walk_scope(program, closed.jaxpr, entering, inner)
        candidates.append((work(program.operations), extra_bytes, program.operations))
    longest = max(candidates, key=lambda candidate: candidate[0])
    program.operations = before + longest[2]
    if len({candidate[0] for candidate in candidates}) > 1:
        program.note("of a choice (lax.cond, lax.switch) the longest branch counts")
    outs = [array(program, variable.aval) for variable in equation.outvars]
    add_call(scope, "cond", (ins, outs), max(candidate[1] for candidate in candidates))
    return outs


def shard_map(program: Program, equation: Any, ins: list[Value], scope: Scope) -> list[Value]:
    """A program of each device: its arrays are the device's own parts."""
    mesh, inner = equation.params["mesh"], inner_jaxpr(equation.params)
    sizes = {str(name): size for name, size in mesh.shape.items()}
    manual = equation.params.get("newly_manual_axes") or equation.params.get("manual_axes") or sizes
    outside = program.share, dict(program.axis_sizes)
    program.axis_sizes.update(sizes)
    program.share = max(1.0, program.share / math.prod(sizes[str(name)] for name in manual))
    entering = [array(program, variable.aval) for variable in inner.invars]
    for outer, part in zip(ins, entering, strict=True):
        if outer.producer is None:  # an argument, of which each device holds this part
            part.is_view, outer.size_bytes = True, part.size_bytes
    add_call(scope, "shard_map", (ins, entering), 0.0)
    results = written(program, inner, walk(program, inner, entering, scope), scope)
    program.share, program.axis_sizes = outside
    outs = [Value(result.size_bytes, result.elements) for result in results]
    add_call(scope, "shard_map", (results, outs), 0.0)
    return outs


CONTROL: Mapping[str, Callable[[Program, Any, list[Value], Scope], list[Value]]] = {
    "reshard": reshard,
    "scan": scan,
    "while": while_loop,
    "cond": branch,
    "shard_map": shard_map,
}


def add_call(
    scope: Scope, name: str, values: tuple[list[Value], list[Value]], extra_bytes: float
) -> None:
    """A step without a cost of its own: what is in it is counted elsewhere."""
    add_step(scope, Step("call", name, *values, extra_bytes=extra_bytes))


def work(operations: Iterable[Mapping[str, Any]]) -> float:
    """A rough measure of how long operations take, to compare branches with."""
    return sum((each["count"] * one_time(each) for each in operations), 0.0)


def one_time(operation: Mapping[str, Any]) -> float:
    """Bytes that an operation moves, and products in bytes that take as long."""
    moved = operation.get("read_bytes", 0) + operation.get("written_bytes", 0)
    products = math.prod(operation.get("sides", (0,))) * operation.get("batch", 1)
    if shape := operation.get("convolution"):
        pixels = shape["images"] * shape["channels"] * math.prod(shape["image"])
        products = pixels * shape["filters"] * math.prod(shape["kernel"])
    return float(moved + 2 * products / RATIO)
