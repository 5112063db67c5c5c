"""The ways to cut a training step over a slice that are tried, as arrays of one length."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import gcd, prod
from typing import Any

import numpy as np

from tpuctl.models.planning.mesh_text import AXES, Mesh
from tpuctl.models.planning.plan_spec import FILLED
from tpuctl.perfmodel.workload.parallelism import Parallelism
from tpuctl.perfmodel.workload.transformer import Transformer

INSIDE = tuple(name for name in AXES if not name.startswith("dcn_"))
BETWEEN = tuple(name for name in AXES if name.startswith("dcn_"))
MOST_TENSOR = 32
MOST_SEQUENCE = 16
"""Devices that share a sequence: beyond it a device has too few tokens to hide its collectives."""
MOST_EXPERT = 256


@dataclass(frozen=True, slots=True)
class ModelSides:
    """What the ways of a mesh must divide: heads, layers, experts, the MLP, a sequence's tokens."""

    heads: int
    mlp_hidden: int
    layers: int
    experts: int
    sequence_tokens: int


def sides_of(model: Transformer, sequence_tokens: int) -> ModelSides:
    """The sides of a model for sequences of so many tokens."""
    experts = model.experts
    mlp = gcd(model.mlp_hidden, experts.hidden) if experts else model.mlp_hidden
    return ModelSides(
        model.heads, mlp, model.layers, experts.count if experts else 1, sequence_tokens
    )


@dataclass(frozen=True, slots=True)
class MeshTable:
    """Meshes, and the ways of each of their axes as an array; axes of one way are left out."""

    meshes: tuple[Mesh, ...]
    ways: Mapping[str, Any]
    batch_ways: Any

    def column(self) -> Parallelism:
        """All of them, to broadcast with a row."""
        return Parallelism(**{name: ways[:, None] for name, ways in self.ways.items()})

    def chosen(self, rows: Any) -> Parallelism:
        """Those at the places `rows`."""
        return Parallelism(**{name: ways[rows] for name, ways in self.ways.items()})


def mesh_table(meshes: Sequence[Mesh]) -> MeshTable:
    """The meshes as arrays."""
    ways = {
        name: np.array([mesh.get(name, 1) for mesh in meshes], np.int64)
        for name in AXES
        if any(mesh.get(name, 1) > 1 for mesh in meshes)
    }
    batches = np.array([batch_ways(mesh) for mesh in meshes], np.int64)
    return MeshTable(tuple(meshes), ways, batches)


@cache
def mesh_choices(sides: ModelSides, devices: int, slices: int, sequences: int) -> MeshTable:
    """The meshes of `slices` slices of `devices` devices that a batch of `sequences` can use.

    Stages of a pipeline are between slices only; inside of one they are not tried.
    """
    return mesh_table(
        [
            mesh
            for mesh in _meshes(
                sides, devices, slices, is_uneven=sequences % (devices * slices) != 0
            )
            if sequences % batch_ways(mesh) == 0
        ]
    )


def _meshes(sides: ModelSides, devices: int, slices: int, *, is_uneven: bool) -> Iterator[Mesh]:
    for tensor in divisors(gcd(devices, gcd(sides.heads, sides.mlp_hidden)), MOST_TENSOR):
        for expert in divisors(gcd(devices // tensor, sides.experts), MOST_EXPERT):
            left = devices // tensor // expert
            most = MOST_SEQUENCE if is_uneven else 1
            for sequence in divisors(gcd(left, sides.sequence_tokens), most):
                inside = {"tensor": tensor, "expert": expert, "sequence": sequence}
                yield from _data_ways(inside, left // sequence, slices, sides.layers)


def _data_ways(inside: Mesh, ways: int, slices: int, layers: int) -> Iterator[Mesh]:
    """The rest as data and FSDP, and the slices as either of them or as stages."""
    for data in divisors(ways, ways):
        mesh = {**inside, "data": data, "fsdp": ways // data}
        if slices == 1:
            yield mesh
            continue
        yield {**mesh, "dcn_data": slices}
        yield {**mesh, "dcn_fsdp": slices}
        if layers % slices == 0:
            yield {**mesh, "dcn_pipeline": slices}


def divisors(number: int, most: int) -> tuple[int, ...]:
    """The divisors of a number up to `most`."""
    return tuple(each for each in range(1, min(number, most) + 1) if number % each == 0)


def batch_ways(mesh: Mesh) -> int:
    """Into how many parts a mesh cuts the sequences of a batch."""
    return prod(mesh.get(name, 1) for name in ("data", "fsdp", "expert", "dcn_data", "dcn_fsdp"))


def filled_mesh(mesh: Mesh, devices: int, slices: int) -> Mesh | None:
    """The mesh with its axis -1, and slices that it does not name as data; None where neither fits.

    `devices` are those of one slice.
    """
    inside = {name: ways for name, ways in mesh.items() if name in INSIDE}
    between = {name: ways for name, ways in mesh.items() if name in BETWEEN}
    filled = _filled(inside, devices), _filled(between or {"dcn_data": slices}, slices)
    return None if None in filled else {**(filled[0] or {}), **(filled[1] or {})}


def _filled(mesh: Mesh, devices: int) -> Mesh | None:
    known = prod(ways for ways in mesh.values() if ways != FILLED)
    if FILLED not in mesh.values():
        return mesh if known == devices else None
    if devices % known:
        return None
    return {name: devices // known if ways == FILLED else ways for name, ways in mesh.items()}


def mesh_fault(mesh: Mesh, sides: ModelSides, sequences: int) -> str | None:
    """What a mesh does not divide, as the end of a sentence; None where it divides all."""
    divided = (
        ("tensor", sides.heads, "heads"),
        ("tensor", sides.mlp_hidden, "columns of the MLP"),
        ("expert", sides.experts, "experts"),
        ("pipeline", sides.layers, "layers"),
        ("dcn_pipeline", sides.layers, "layers"),
        ("sequence", sides.sequence_tokens, "tokens of a sequence"),
    )
    for axis, side, what in divided:
        if side % mesh.get(axis, 1):
            return f"{axis}={mesh[axis]} does not divide {side} {what}"
    if sequences % batch_ways(mesh):
        return f"the mesh cuts a batch {batch_ways(mesh)} ways, which does not divide {sequences}"
    return None
