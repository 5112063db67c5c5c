"""Predicts rows in batches of few shapes, and finds the rows of a batch that fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tpuctl.errors import JobFailedError, TpuctlError
from tpuctl.serving.batch.formats.file_format import ROW, RejectedRow, UnitRows
from tpuctl.serving.datatypes import Array, Batch

ERROR_CHARACTERS = 500
HOPELESS_ROWS = 256
"""So many rows that fail before the first one succeeds are the program's fault."""


ALL_HINT = "if they are bad rows indeed, give predict.max_rejects in the job file"


class HopelessError(JobFailedError):
    """The program fails for every row so far."""


@dataclass(frozen=True)
class PredictedRows:
    """The outputs of a unit, their rows' numbers among them, and the rows that failed."""

    columns: Batch
    rejects: tuple[RejectedRow, ...]
    rows: int
    """How many rows the unit has, rejected ones included."""


@dataclass
class PaddedBatches:
    """Calls `predict` with at most `batch` rows, padded to the next power of two by the last row.

    A program that XLA compiles is so compiled for few shapes. With `is_padded` false the rows of a
    unit go in as they are.
    """

    predict: Callable[[Batch], Batch]
    batch: int
    is_padded: bool = True
    shapes: set[int] = field(default_factory=set)
    """The numbers of rows that `predict` was called with."""
    may_all_fail: bool = False
    has_succeeded: bool = False

    def predict_rows(self, rows: UnitRows) -> PredictedRows:
        """The outputs of a unit's rows, in their order, with their numbers as the column ROW.

        Which rows go together depends on the unit alone. Raises JobFailedError when the batches
        return different columns, and when HOPELESS_ROWS fail before any succeeds, unless all may.
        """
        done: list[tuple[Batch, Array]] = []
        rejects = list(rows.rejects)
        size = self.batch if self.is_padded else max(1, len(rows.numbers))
        for start in range(0, len(rows.numbers), size):
            part = slice(start, start + size)
            batch = {name: array[part] for name, array in rows.batch.items()}
            self._predict_part(batch, rows.numbers[part], done, rejects)
        return PredictedRows(_joined(done), tuple(sorted(rejects)), rows.count)

    def _predict_part(
        self,
        batch: Batch,
        numbers: Array,
        done: list[tuple[Batch, Array]],
        rejects: list[RejectedRow],
    ) -> None:
        """Predict a batch; one that fails is halved until the rows are found that do."""
        try:
            done.append((self._predict_padded(batch, len(numbers)), numbers))
            self.has_succeeded = True
        except HopelessError:
            raise
        except TpuctlError as error:
            if len(numbers) == 1:
                rejects.append(RejectedRow(int(numbers[0]), str(error)[:ERROR_CHARACTERS]))
                self._refuse_hopeless(rejects)
                return
            middle = len(numbers) // 2
            for part in (slice(None, middle), slice(middle, None)):
                half = {name: array[part] for name, array in batch.items()}
                self._predict_part(half, numbers[part], done, rejects)

    def _refuse_hopeless(self, rejects: list[RejectedRow]) -> None:
        if len(rejects) >= HOPELESS_ROWS and not (self.has_succeeded or self.may_all_fail):
            raise HopelessError(
                f"the first {len(rejects)} rows are rejected: {rejects[-1].error}", hint=ALL_HINT
            )

    def _predict_padded(self, batch: Batch, rows: int) -> Batch:
        size = min(self.batch, 1 << (rows - 1).bit_length()) if self.is_padded else rows
        self.shapes.add(size)
        if size > rows:
            places = np.minimum(np.arange(size), rows - 1)
            batch = {name: array[places] for name, array in batch.items()}
        outputs = self.predict(batch)
        return {name: storable(name, array)[:rows] for name, array in outputs.items()}


def storable(name: str, array: Array) -> Array:
    """An output as a file can hold it: bfloat16 as float32, text of objects as text."""
    if name == ROW:
        raise JobFailedError(f"predict returns {ROW!r}, which every output has by itself")
    if array.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        return array.astype(np.float32)
    if array.dtype.hasobject:
        values = array.tolist()
        if array.ndim == 1 and all(isinstance(value, str) for value in values):
            return np.array(values, np.str_)
        raise JobFailedError(f"predict returns {name!r} of Python objects: return numbers or text")
    return array


def _joined(done: list[tuple[Batch, Array]]) -> Batch:
    names = list(done[0][0]) if done else []
    for batch, numbers in done:
        if list(batch) != names:
            raise JobFailedError(
                f"predict returns {', '.join(batch)} from row {numbers[0]} on,"
                f" and {', '.join(names)} before"
            )
    places = [numbers for _, numbers in done] or [np.empty(0, np.int64)]
    columns: Batch = {ROW: np.concatenate(places).astype(np.int64)}
    for name in names:
        try:
            columns[name] = np.concatenate([batch[name] for batch, _ in done])
        except ValueError as error:
            raise JobFailedError(
                f"predict returns {name!r} of different shapes: {error}"
            ) from error
    return columns
