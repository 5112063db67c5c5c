"""The mesh of a program, and which part of an array one of its devices holds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tpuctl.operations.planning.tracing.kernels import Value


@dataclass
class Program:
    """What is known while a jaxpr is walked."""

    devices: int = 1
    share: float = 1.0
    """Into how many equal parts the devices cut what is seen now."""
    axis_sizes: dict[str, int] = field(default_factory=dict)
    operations: list[dict[str, Any]] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)

    def note(self, text: str) -> None:
        """Say something once."""
        self.notes[text] = None


def array(program: Program, aval: Any, sharding: Any = None) -> Value:
    """An abstract array, as one device holds its part.

    A sharding, of the array's type or given with it, says the part; else it is an even share.
    """
    elements = float(math.prod(getattr(aval, "shape", ())))
    itemsize = getattr(getattr(aval, "dtype", None), "itemsize", 0)
    ways = named_ways(sharding) or named_ways(getattr(aval, "sharding", None))
    parts = ways if ways is not None and program.share > 1 else program.share
    return Value(elements * itemsize / parts, elements / parts)


def arguments_of(program: Program, jaxpr: Any) -> list[Value]:
    """The arguments of a whole program, as `jax.jit` is told to shard them where it is."""
    shardings: dict[Any, Any] = {}
    for equation in jaxpr.eqns:
        given = equation.params.get("in_shardings", ())
        shardings.update(zip(map(id, equation.invars), given, strict=False))
    return [array(program, variable.aval, shardings.get(id(variable))) for variable in jaxpr.invars]


def named_ways(sharding: Any) -> int | None:
    """Into how many parts a sharding with named axes cuts an array; None where it does not say."""
    spec = getattr(sharding, "spec", None)
    return None if spec is None else _ways_of(sharding, spec)


def side_ways(aval: Any) -> list[int] | None:
    """Into how many parts the type of an array says that each side is cut; None without a word."""
    sharding: Any = getattr(aval, "sharding", None)
    if named_ways(sharding) is None:
        return None
    parts = [*sharding.spec, *[None] * len(aval.shape)][: len(aval.shape)]
    return [_ways_of(sharding, [part]) or 1 for part in parts]


def _ways_of(sharding: Any, parts: Iterable[Any]) -> int | None:
    mesh = getattr(sharding, "mesh", None)
    if mesh is None or not mesh.axis_names:
        return None
    types = getattr(mesh, "axis_types", None) or ()
    if type(mesh).__name__ != "Mesh" and not all("Explicit" in str(kind) for kind in types):
        return None
    sizes = dict(mesh.shape)
    axes = [axis for part in parts for axis in (part if isinstance(part, tuple) else (part,))]
    return math.prod(int(sizes.get(axis, 1)) for axis in axes if axis is not None)


def mesh_sizes(jaxpr: Any) -> dict[str, int]:
    """The axes of the largest mesh that the program names, with their lengths."""
    largest: dict[str, int] = {}
    for mesh in meshes(jaxpr):
        sizes = {str(name): int(size) for name, size in dict(mesh.shape).items()}
        if math.prod(sizes.values()) > math.prod(largest.values()):
            largest = sizes
    return largest


def meshes(jaxpr: Any) -> Iterator[Any]:
    """Every mesh of shard_map, of a sharding that jit is given, and of a constraint."""
    for variable in jaxpr.invars:
        yield from mesh_of(getattr(variable.aval, "sharding", None))
    for equation in jaxpr.eqns:
        for value in equation.params.values():
            for member in value if isinstance(value, (tuple, list)) else (value,):
                yield from mesh_of(member)
                inner = getattr(member, "jaxpr", member)
                if hasattr(inner, "eqns"):
                    yield from meshes(inner)


def mesh_of(member: Any) -> Iterator[Any]:
    """A mesh, or that of a sharding."""
    mesh = getattr(member, "mesh", member)
    if hasattr(mesh, "axis_names") and hasattr(mesh, "shape") and mesh.axis_names:
        yield mesh


def inner_jaxpr(parameters: Mapping[str, Any]) -> Any:
    """The program that an equation calls, if it calls one."""
    for name in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        if name in parameters:
            return getattr(parameters[name], "jaxpr", parameters[name])
    return None


def outside_work(jaxpr: Any) -> bool:
    """Whether a program computes outside of shard_map."""
    for equation in jaxpr.eqns:
        if str(equation.primitive) == "shard_map":
            continue
        inner = inner_jaxpr(equation.params)
        if inner is None or outside_work(inner):
            return True
    return False
