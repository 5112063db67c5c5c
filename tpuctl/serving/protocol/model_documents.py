"""The documents about the server and its model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tpuctl import __version__
from tpuctl.serving.program import TensorSpec


class ModelInfo(NamedTuple):
    """What clients may know of a model."""

    name: str
    version: str
    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]


def server_metadata() -> dict[str, Any]:
    """The answer to GET /v2."""
    return {"name": "tpuctl", "version": __version__, "extensions": ["binary_tensor_data"]}


def model_metadata(model: ModelInfo) -> dict[str, Any]:
    """The answer to GET /v2/models/NAME."""
    return {
        "name": model.name,
        "versions": [model.version],
        "platform": "tpuctl",
        "inputs": _tensors(model.inputs),
        "outputs": _tensors(model.outputs),
    }


def _tensors(specs: Mapping[str, TensorSpec]) -> list[dict[str, Any]]:
    return [
        {"name": name, "datatype": spec.datatype, "shape": list(spec.shape)}
        for name, spec in specs.items()
    ]
