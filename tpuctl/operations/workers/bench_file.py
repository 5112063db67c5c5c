"""The file of measurements that `tpuctl bench NODE --output` writes and `plan --calibrate` reads.

It has what was measured and where it counts: type, topology, device, versions and day. It has no
name of a project, a node, a zone or a person, so that it can be given away as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tpuctl import __version__, catalog
from tpuctl.errors import LocalIOError, UsageError, unreadable_error
from tpuctl.perfmodel.workload.program.bench_rows import BenchRow
from tpuctl.perfmodel.workload.program.term_calibration import TermCalibration, calibration_from
from tpuctl.perfmodel.workload.slice_hardware import SliceHardware, slice_hardware

SCHEMA = 1
TPU = "tpu"
"""What JAX calls the platform of a TPU."""
LEAST_S, MOST_S = 1e-8, 3600.0
"""Times of one run that a file may have."""
MOST_SIDE = 2**50
_HINT = "write one with: tpuctl bench NODE --output FILE"


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """What JAX on worker 0 says of the devices that were measured."""

    jax: str
    platform: str
    device_kind: str
    devices: int

    @property
    def is_tpu(self) -> bool:
        """Whether the figures are those of a TPU."""
        return self.platform == TPU


@dataclass(frozen=True, slots=True)
class MeasuredSlice:
    """The rows that were measured on a slice."""

    accelerator_type: str
    runtime_version: str
    report: DeviceReport
    rows: tuple[BenchRow, ...]


def bench_hardware(accelerator_type: str) -> SliceHardware:
    """The slice of a type, as the model knows it. Raises catalog.UnknownError."""
    kind = catalog.accelerator_type(accelerator_type)
    return slice_hardware(kind.generation, kind.topology)


def write_measurements(path: Path, measured: MeasuredSlice, now_s: float) -> None:
    """Write the file in place of what was there. Raises LocalIOError."""
    kind = catalog.accelerator_type(measured.accelerator_type)
    document = {
        "schema": SCHEMA,
        "tpuctl": __version__,
        "measured_on": datetime.fromtimestamp(now_s, UTC).date().isoformat(),
        "accelerator_type": measured.accelerator_type,
        "generation": kind.generation,
        "topology": kind.topology,
        "runtime_version": measured.runtime_version,
        **asdict(measured.report),
        "rows": [_row_fields(row) for row in measured.rows],
    }
    try:
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise LocalIOError(f"cannot write {path}: {error.strerror}") from error


def read_measurements(path: Path) -> MeasuredSlice:
    """What a file has. Raises NotFoundError, LocalIOError, and UsageError for another file."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return _measured(document)
    except OSError as error:
        raise unreadable_error(path, error, hint=_HINT) from error
    except (ValueError, KeyError, TypeError, AttributeError, catalog.UnknownError) as error:
        why = _fault(error)
        raise UsageError(f"{path} is not a file of measurements: {why}", hint=_HINT) from error


def _fault(error: Exception) -> str:
    """What is wrong with a file, in words of its own."""
    match error:
        case json.JSONDecodeError(lineno=line):
            return f"it is not JSON (line {line})"
        case KeyError(args=(name,)):
            return f"it has no {name}"
        case TypeError() | AttributeError():
            return "a part of it has the wrong type"
    return str(error)


def slice_calibration(path: Path) -> TermCalibration:
    """The factors that the measurements of a file give. Raises UsageError where they give none."""
    measured = read_measurements(path)
    report = measured.report
    if not report.is_tpu:
        raise UsageError(
            f"{path} was measured on {report.device_kind} ({report.platform}), not on a TPU",
            hint=_HINT,
        )
    try:
        return calibration_from(bench_hardware(measured.accelerator_type), measured.rows, path.name)
    except ValueError as error:
        raise UsageError(f"{path}: {error}", hint=_HINT) from error


def _measured(document: Mapping[str, Any]) -> MeasuredSlice:
    if document["schema"] != SCHEMA:
        raise ValueError(f"its schema is {document['schema']!r}, not {SCHEMA}")
    measured = MeasuredSlice(
        accelerator_type=document["accelerator_type"],
        runtime_version=document["runtime_version"],
        report=DeviceReport(**{name: document[name] for name in _names(DeviceReport)}),
        rows=tuple(_row(row) for row in document["rows"]),
    )
    catalog.accelerator_type(measured.accelerator_type)
    return measured


def _row(row: Mapping[str, Any]) -> BenchRow:
    """A row of the file; raises ValueError for a figure that cannot be one."""
    for name, value in row.items():
        if name not in _names(BenchRow):
            raise ValueError(f"a row has the unknown key {name}")
        if name in ("kind", "dtype", "exchange"):
            is_right = isinstance(value, str)
        elif name == "measured_s":
            is_right = type(value) in (int, float) and LEAST_S <= value <= MOST_S
        else:
            is_right = type(value) is int and 0 <= value <= MOST_SIDE
        if not is_right:
            raise ValueError(f"a row has {name} {str(value)[:20]}")
    return BenchRow(**row)


def _row_fields(row: BenchRow) -> dict[str, Any]:
    """The figures that a row has; those that its kind does not have are left out."""
    return {name: value for name, value in asdict(row).items() if value}


def _names(kind: type) -> list[str]:
    return [field.name for field in fields(kind)]
