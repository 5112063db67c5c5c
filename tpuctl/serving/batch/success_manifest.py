"""`_SUCCESS`: what all outputs together are, written by a worker that sees every unit done."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tpuctl.errors import IntegrityError, JobFailedError, PreconditionError
from tpuctl.serving.batch.batch_settings import SCHEMA
from tpuctl.serving.batch.unit_commit import DoneUnit, decode_done_unit
from tpuctl.serving.batch.unit_plan import RECORDS, SUCCESS_KEY, PlannedUnit, UnitPlan
from tpuctl.store import Store

READ_THREADS = 16
DONE_PREFIX = f"{RECORDS}done/"


def list_done(output: Store) -> set[int]:
    """The numbers of the units whose records are there."""
    names = (entry.key.removeprefix(DONE_PREFIX) for entry in output.list(DONE_PREFIX))
    return {int(name[:8]) for name in names if name[:8].isdecimal()}


def write_manifest(
    output: Store, plan: UnitPlan, known: Mapping[int, DoneUnit], max_rejects: int | None
) -> dict[str, Any]:
    """Add up the records of all units and write the manifest, unless it is there.

    The records of the units that this worker has committed are `known`.

    Raises JobFailedError with more rejected rows than allowed, IntegrityError when rows are
    missing.
    """

    def read(unit: PlannedUnit) -> DoneUnit:
        if unit.number in known:
            return known[unit.number]
        return decode_done_unit(output.get_range(unit.done_key), f"{output.url}/{unit.done_key}")

    with ThreadPoolExecutor(READ_THREADS) as pool:
        done = list(pool.map(read, plan.units))
    manifest = manifest_of(plan, done)
    refuse_many_rejects(manifest["rows_rejected"], max_rejects)
    with contextlib.suppress(PreconditionError):  # another worker has written the same
        output.put_if_absent(SUCCESS_KEY, json.dumps(manifest, indent=1).encode() + b"\n")
    return manifest


def manifest_of(plan: UnitPlan, done: Sequence[DoneUnit]) -> dict[str, Any]:
    """The manifest of a plan whose units are all done; raises IntegrityError."""
    for unit, record in zip(plan.units, done, strict=True):
        if unit.range.rows not in (None, record.rows) or record.unit != unit.number:
            raise IntegrityError(
                f"unit {unit.number} has {unit.range.rows} rows, and its record {record.rows}"
            )
    rows = sum(record.rows for record in done)
    rejected = sum(record.rejected for record in done)
    return {
        "schema": SCHEMA,
        "version": plan.version,
        "input": plan.input,
        "inputs": len(plan.inputs),
        "units": len(done),
        "rows_in": rows,
        "rows_out": rows - rejected,
        "rows_rejected": rejected,
        "outputs": [
            {
                "name": record.name,
                "rows": record.rows - record.rejected,
                "size_bytes": record.size_bytes,
                "crc32c": record.crc32c,
            }
            for record in done
        ],
        "rejects": [
            {
                "name": record.rejects_name,
                "rows": record.rejected,
                "size_bytes": record.rejects_size_bytes,
                "crc32c": record.rejects_crc32c,
            }
            for record in done
            if record.rejected
        ],
    }


def refuse_many_rejects(rejected: int, max_rejects: int | None) -> None:
    """Raise JobFailedError with more rejected rows than are allowed."""
    if max_rejects is not None and rejected > max_rejects:
        raise JobFailedError(
            f"{rejected} rows were rejected, and predict.max_rejects is {max_rejects}",
            hint="the reject files below _rejects/ of the output say why",
        )
