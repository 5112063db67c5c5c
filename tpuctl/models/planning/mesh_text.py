"""A mesh of devices: how many ways each kind of parallelism has, and its text."""

from collections.abc import Mapping

AXES = (
    *("data", "fsdp", "tensor", "sequence", "expert", "pipeline"),
    *("dcn_data", "dcn_fsdp", "dcn_pipeline"),
)
"""The kinds of parallelism: inside of a slice, then between slices."""

Mesh = Mapping[str, int]
"""Axis -> ways; an axis that is absent has one."""


def mesh_text(mesh: Mesh) -> str:
    """`fsdp=16,tensor=4`: the axes of more than one way; `1` for a single device."""
    return ",".join(f"{name}={ways}" for name, ways in wide_axes(mesh).items()) or "1"


def wide_axes(mesh: Mesh) -> dict[str, int]:
    """The axes of more than one way, in the order of AXES; -1 is one of them."""
    return {name: mesh[name] for name in AXES if mesh.get(name, 1) != 1}
