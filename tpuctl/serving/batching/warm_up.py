"""The first calls of a model: every size of batch is compiled before anybody waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tpuctl.errors import JobFailedError, UsageError
from tpuctl.serving.batching.batch_sizes import BatchTimes
from tpuctl.serving.datatypes import DTYPES, Array, Batch, datatype_of
from tpuctl.serving.program import ModelProgram, TensorSpec


def warm_up(
    program: ModelProgram,
    model: Any,
    sizes: Sequence[int],
    times: BatchTimes,
    clock: Callable[[], float],
) -> dict[str, TensorSpec]:
    """Predict a batch of each size twice, the second time measured; returns what comes out.

    Raises JobFailedError when `predict` fails or returns what the protocol cannot carry.
    """
    found: dict[str, TensorSpec] = {}
    for size in sizes:
        outputs = program.predict_batch(model, example_batch(program, size))
        began_s = clock()
        program.predict_batch(model, example_batch(program, size))
        times.record(size, clock() - began_s)
        found = dict(_specs(program, outputs))
    return found


def free_inputs(program: ModelProgram) -> list[str]:
    """Inputs whose rows have no fixed shape, and no example: no batch of them can be made."""
    return [
        name
        for name, spec in program.inputs.items()
        if -1 in spec.shape[1:] and name not in program.example
    ]


def example_batch(program: ModelProgram, size: int) -> Batch:
    """A batch of one row `size` times: that of EXAMPLE, or zeros and empty texts."""
    return {
        name: np.repeat(_example_row(program.example, name, spec)[None], size, axis=0)
        for name, spec in program.inputs.items()
    }


def _example_row(example: Mapping[str, Any], name: str, spec: TensorSpec) -> Array:
    dtype = DTYPES[spec.datatype]
    shape = spec.shape[1:]
    if name not in example:
        return np.full(shape, b"", dtype) if dtype.kind == "O" else np.zeros(shape, dtype)
    row = np.asarray(example[name], dtype)
    limits = zip(row.shape, shape)  # noqa: B905 (their lengths are compared)
    if row.ndim != len(shape) or any(limit not in (-1, size) for size, limit in limits):
        raise UsageError(
            f"EXAMPLE[{name!r}] has the shape {list(row.shape)}; a row of INPUTS has {list(shape)}"
        )
    return row


def _specs(program: ModelProgram, outputs: Batch) -> Iterator[tuple[str, TensorSpec]]:
    for name, array in outputs.items():
        datatype = datatype_of(array)
        if datatype is None:
            raise JobFailedError(
                f"predict of {program.name} returns {name!r} as {array.dtype}",
                hint=f"return one of: {', '.join(DTYPES)}",
            )
        yield name, TensorSpec(datatype, (-1, *array.shape[1:]))
