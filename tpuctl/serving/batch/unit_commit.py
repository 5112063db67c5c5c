"""Writes what a unit became, so that every row is in one output or one reject file, once.

The output's name follows from the unit, and no write replaces anything. Whoever comes second finds
an output there, which is kept; the rejects are then the rows that it lacks. The record that the
unit is done comes last. A worker may end between any two of these writes: the next one does them
again and finds the same.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from tpuctl.errors import DamagedStateError, IntegrityError, PreconditionError
from tpuctl.serving.batch.formats.file_format import ROW, FileFormat, RejectedRow
from tpuctl.serving.batch.padded_batches import PredictedRows
from tpuctl.serving.batch.unit_plan import PlannedUnit, UnitPlan
from tpuctl.serving.datatypes import Array
from tpuctl.store import Entry, Store, crc32c

EARLIER = "it was rejected by an earlier try, which ended before it could say why"


@dataclass(frozen=True)
class DoneUnit:
    """The record of a unit whose outputs are in."""

    unit: int
    name: str
    rows: int
    """Of the input, rejected ones included."""
    rejected: int
    size_bytes: int
    crc32c: str
    rejects_name: str = ""
    rejects_size_bytes: int = 0
    rejects_crc32c: str = ""

    def encode(self) -> bytes:
        """The bytes of the record."""
        return json.dumps(asdict(self)).encode()


def decode_done_unit(data: bytes, url: str) -> DoneUnit:
    """A record from its bytes; raises DamagedStateError."""
    try:
        return DoneUnit(**json.loads(data))
    except (ValueError, TypeError) as error:
        raise DamagedStateError(f"{url} cannot be read: {error}") from error


class UnitCommit:
    """Commits the units of one plan to its output's store."""

    def __init__(self, output: Store, plan: UnitPlan, kind: FileFormat) -> None:
        """`kind` is the format of the outputs."""
        self._output = output
        self._plan = plan
        self._kind = kind

    def commit(self, unit: PlannedUnit, predicted: PredictedRows) -> DoneUnit:
        """Write a unit's output, its rejects and its record, each unless it is there."""
        name = self._plan.output_key(unit)
        data = self._kind.encode(predicted.columns)
        entry, is_ours = self._put(name, data)
        rejects = predicted.rejects
        if not is_ours and entry.crc32c != crc32c(data):
            rejects = self._missing_rows(name, entry, predicted)
        done = DoneUnit(
            unit.number, name, predicted.rows, len(rejects), entry.size_bytes, entry.crc32c,
            *self._put_rejects(unit, rejects),
        )  # fmt: skip
        self._put(unit.done_key, done.encode())
        return done

    def _put_rejects(
        self, unit: PlannedUnit, rejects: tuple[RejectedRow, ...]
    ) -> tuple[str, int, str]:
        """Write the reject file; returns its name, size and checksum, empty without rejects."""
        if not rejects:
            return "", 0, ""
        lines = (
            json.dumps({"input": unit.input.key, "row": each.row, "error": each.error})
            for each in rejects
        )
        data = "".join(f"{line}\n" for line in lines).encode()
        entry, _ = self._put(self._plan.rejects_key(unit), data)
        return entry.key, entry.size_bytes, entry.crc32c

    def _put(self, key: str, data: bytes) -> tuple[Entry, bool]:
        """What is there under a name now, and whether it is what was put."""
        try:
            return self._output.put_if_absent(key, data), True
        except PreconditionError:
            there = self._output.head(key)
            if there is None:
                raise
            return there, False

    def _missing_rows(
        self, name: str, entry: Entry, predicted: PredictedRows
    ) -> tuple[RejectedRow, ...]:
        """The rows of a unit that the output of another worker, whose program differed, lacks."""
        data = self._output.get_range(name, generation=entry.generation)
        try:
            there = self._kind.row_numbers(data)
        except (ValueError, KeyError, OSError) as error:
            place = f"{self._output.url}/{name}"
            raise IntegrityError(f"{place} cannot be an output: {error}") from error
        return missing_rows(there, predicted)


def missing_rows(there: Array, predicted: PredictedRows) -> tuple[RejectedRow, ...]:
    """The rows of a unit that are not in an output, with what is known of why."""
    errors = {each.row: each.error for each in predicted.rejects}
    rows = {*errors, *map(int, predicted.columns[ROW])}
    return tuple(
        RejectedRow(row, errors.get(row, EARLIER)) for row in sorted(rows - set(map(int, there)))
    )
