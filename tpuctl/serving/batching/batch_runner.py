"""Runs a batch: joined, padded, predicted, split again; a request that fails harms no other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tpuctl.errors import JobFailedError
from tpuctl.serving.batching.batch_queue import Outcome, WaitingRequest
from tpuctl.serving.batching.batch_sizes import BatchTimes
from tpuctl.serving.datatypes import Batch
from tpuctl.serving.program import ModelProgram
from tpuctl.serving.protocol.protocol_error import ProtocolError


@dataclass(frozen=True)
class PredictCall:
    """One call of `predict`."""

    rows: int
    padded_rows: int
    """The size of the batch that the model got."""
    took_s: float
    is_good: bool


@dataclass
class BatchResult:
    """The outcome of each request of a batch, and the calls of `predict` that it took."""

    outcomes: list[tuple[WaitingRequest, Outcome]] = field(default_factory=list)
    calls: list[PredictCall] = field(default_factory=list)


class BatchRunner:
    """Runs batches on a model, one at a time."""

    def __init__(
        self, program: ModelProgram, model: Any, times: BatchTimes, clock: Callable[[], float]
    ) -> None:
        """Run `predict` of a program; `times` says how batches are padded."""
        self._program = program
        self._model = model
        self._times = times
        self._clock = clock

    def run(self, batch: Sequence[WaitingRequest]) -> BatchResult:
        """Predict a batch; when that fails, each half of it, until those that fail are alone."""
        result = BatchResult()
        left = [list(batch)]
        while left:
            part = [waiting for waiting in left.pop() if not waiting.is_over]
            if not part:
                continue
            try:
                outputs = self._predict(part, result)
            except JobFailedError as error:
                if len(part) == 1:
                    result.outcomes.append((part[0], ProtocolError(500, str(error))))
                else:
                    left += [part[len(part) // 2 :], part[: len(part) // 2]]
            else:
                result.outcomes += zip(part, outputs)  # noqa: B905 (Python 3.10, of one length)
        return result

    def _predict(self, part: Sequence[WaitingRequest], result: BatchResult) -> list[Batch]:
        rows = sum(waiting.request.rows for waiting in part)
        size = self._times.padded(rows)
        try:
            joined = join([waiting.request.inputs for waiting in part], size)
        except MemoryError as error:
            raise JobFailedError(f"there is no memory for a batch of {size} rows") from error
        began_s = self._clock()
        is_good = False
        try:
            outputs = self._program.predict_batch(self._model, joined)
            is_good = True
        finally:
            result.calls.append(PredictCall(rows, size, self._clock() - began_s, is_good))
        return split(outputs, [waiting.request.rows for waiting in part])


def join(inputs: Sequence[Batch], size: int) -> Batch:
    """Batches behind each other, padded to `size` rows by repeating the last one.

    A row of zeros may be one that the model cannot take; a row that is there is as good as itself.
    """
    return {name: _joined([each[name] for each in inputs], size) for name in inputs[0]}


def _joined(arrays: Sequence[Any], size: int) -> Any:
    if len(arrays) == 1 and len(arrays[0]) == size and arrays[0].flags.writeable:
        return arrays[0]
    joined = np.empty((size, *arrays[0].shape[1:]), arrays[0].dtype)
    end = 0
    for array in arrays:
        start, end = end, end + len(array)
        joined[start:end] = array
    joined[end:] = joined[end - 1]
    return joined


def split(outputs: Batch, counts: Sequence[int]) -> list[Batch]:
    """The rows of each request, in the order of the requests; those of the padding are left out."""
    found = []
    end = 0
    for count in counts:
        start, end = end, end + count
        found.append({name: array[start:end] for name, array in outputs.items()})
    return found
