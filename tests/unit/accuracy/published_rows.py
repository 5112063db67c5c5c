"""Published measurements of TPUs, as `measurements/*.json` carry them: one table, one source.

A row is used in one way only. `fitted`: the constants are fitted to it. `development`: never
fitted; the formulas may be chosen and the intervals made with it. `held_out`: scored, nothing else.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from tpuctl import catalog
from tpuctl.perfmodel.chip import collectives, gemm, memory
from tpuctl.perfmodel.chip.calibration import Constants
from tpuctl.perfmodel.chip.chip_part import chip_share
from tpuctl.perfmodel.chip.torus import Axis

MEASUREMENTS = Path(__file__).with_name("measurements")
Axes = tuple[tuple[int, bool], ...]
"""Of a group: the chips along each axis, and whether it is a ring."""
USES = ("fitted", "development", "held_out")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of one source that are alike; `columns` and `uses` have an entry for each row."""

    name: str
    kind: str
    generation: str
    chip: catalog.Chip
    dtype: str
    is_prefetched: bool
    clock: str
    source: str
    recipe: str
    notes: tuple[str, ...]
    columns: dict[str, np.ndarray]
    uses: np.ndarray

    @property
    def measured_s(self) -> np.ndarray:
        """What the chip took, in seconds."""
        return self.columns["measured"] * 1e-6

    def predicted_s(self, constants: Constants) -> np.ndarray:
        """What the model says of every row, in seconds."""
        return np.asarray(_PREDICT[self.kind](self, constants), dtype=float)

    def fast_s(self, constants: Constants) -> np.ndarray:
        """What the model says if the compiler always chooses large tiles, in seconds."""
        if self.kind != "gemm":
            return self.predicted_s(constants)
        return np.asarray(gemm.fast_total(gemm_terms(self, constants)), dtype=float)

    @property
    def tells(self) -> str:
        """The kind of rows that the fit knows: products at a pinned clock are one of their own."""
        return self.kind if self.clock == "default" else f"{self.kind} {self.clock}"

    def select(self, chosen: np.ndarray) -> "Table":
        """The rows that are chosen."""
        columns = {name: column[chosen] for name, column in self.columns.items()}
        return replace(self, columns=columns, uses=self.uses[chosen])

    def of_use(self, *uses: str) -> "Table":
        """The rows of these uses."""
        return self.select(np.isin(self.uses, uses))

    @property
    def is_regular(self) -> np.ndarray:
        """Which products have whole vectors for sides."""
        shape = (self.columns[side] for side in "mkn")
        return np.asarray(gemm.is_regular(gemm.MatmulWork(*shape)))

    @property
    def is_large(self) -> np.ndarray:
        """Which irregular products have long sides only."""
        shape = (self.columns[side] for side in "mkn")
        return np.asarray(gemm.is_large_and_ragged(gemm.MatmulWork(*shape)))

    def labels(self) -> list[str]:
        """How each row is called on the page."""
        return [
            _LABEL[self.kind](dict(zip(self.columns, row, strict=True))) for row in self._rows()
        ]

    def _rows(self) -> Iterable[tuple[Any, ...]]:
        return zip(*self.columns.values(), strict=True)


@cache
def tables(directory: Path = MEASUREMENTS) -> tuple[Table, ...]:
    """All tables, in the order of their names."""
    return tuple(_table(path) for path in sorted(directory.glob("*.json")))


def _table(path: Path) -> Table:
    read = json.loads(path.read_text(encoding="utf-8"))
    rows = [row for use in USES for row in read[use]]
    uses = [use for use in USES for _ in read[use]]
    return Table(
        name=path.stem,
        kind=read["kind"],
        generation=read["generation"],
        chip=_cores(catalog.generation(read["generation"]).chip, read.get("cores")),
        dtype=read.get("dtype", "bf16"),
        is_prefetched=read.get("prefetched") is not None,
        clock=read.get("clock", "default"),
        source=read["source"],
        recipe=read["recipe"],
        notes=tuple(read["notes"]),
        columns={name: _column(rows, i) for i, name in enumerate(read["columns"])},
        uses=np.array(uses),
    )


def _column(rows: list[list[Any]], index: int) -> np.ndarray:
    values = [row[index] for row in rows]
    if all(isinstance(value, int | float) for value in values):
        return np.array(values, dtype=float)
    column = np.empty(len(values), dtype=object)  # an axis list would become a matrix
    column[:] = [value if isinstance(value, str) else tuple(map(tuple, value)) for value in values]
    return column


def _cores(chip: catalog.Chip, cores: int | None) -> catalog.Chip:
    """The part of a chip that one JAX device is: peaks and bandwidth are its TensorCores' share."""
    if cores is None or cores == chip.tensorcores:
        return chip
    return chip_share(chip, chip.tensorcores // cores)


def chips_of(axes: Axes) -> int:
    """The chips of a group."""
    return prod(length for length, _ in axes)


def work_of(table: Table) -> gemm.MatmulWork:
    """The products of a table; what came on chip before the kernel is no HBM traffic of it."""
    m, k, n = (table.columns[side] for side in "mkn")
    crossing = 2 * (m * k + k * n + m * n - table.is_prefetched * np.maximum(m * k, k * n))
    return gemm.MatmulWork(m, k, n, table.dtype, hbm_bytes=crossing)


def gemm_terms(table: Table, constants: Constants) -> dict[str, np.ndarray]:
    """The terms of the products of a table, at its clock as far as that is fitted."""
    pinned = constants.pinned_compute_efficiency
    if table.clock == "pinned" and pinned is not None:
        constants = replace(constants, compute_efficiency=pinned)
    return gemm.terms(constants, table.chip, work_of(table))


def _gemm(table: Table, constants: Constants) -> np.ndarray:
    return np.asarray(gemm.total(gemm_terms(table, constants)))


def _memory(table: Table, constants: Constants) -> np.ndarray:
    terms_of = {"copy": memory.copy_terms, "dma": memory.dma_terms}
    operation, *others = set(table.columns["operation"])
    assert not others, f"{table.name} mixes operations"
    terms = terms_of[operation](constants, table.chip, table.columns["size_bytes"])
    return np.asarray(memory.total(terms))


def _elementwise(table: Table, constants: Constants) -> np.ndarray:
    read, written = table.columns["read_bytes"], table.columns["written_bytes"]
    work = memory.VectorPass(read, written, dtype=table.dtype)
    return np.asarray(memory.total(memory.elementwise_terms(constants, table.chip, work)))


def collective_s(
    table: Table, constants: Constants, *, is_topology_aware: bool = False
) -> np.ndarray:
    """Seconds of every collective of a table."""
    columns = (table.columns[name] for name in ("operation", "axes", "size_bytes"))
    return np.array(
        [
            collectives.total(
                collectives.terms(
                    constants,
                    table.chip,
                    operation,
                    [Axis(*axis) for axis in axes],
                    size_bytes,
                    is_topology_aware=is_topology_aware,
                )
            )
            for operation, axes, size_bytes in zip(*columns, strict=True)
        ]
    )


def _dcn(table: Table, constants: Constants) -> np.ndarray:
    columns = (table.columns[name] for name in ("slices", "size_bytes"))
    return np.array(
        [
            collectives.dcn_terms(constants, table.chip, slices, size_bytes)["dcn"]
            for slices, size_bytes in zip(*columns, strict=True)
        ]
    )


_PREDICT = {
    "dcn": _dcn,
    "gemm": _gemm,
    "memory": _memory,
    "elementwise": _elementwise,
    "collective": collective_s,
}
_LABEL = {
    "gemm": lambda row: f"{row['m']:.0f} x {row['k']:.0f} x {row['n']:.0f}",
    "memory": lambda row: f"{row['operation']} {row['size_bytes']:,.0f} B",
    "elementwise": lambda row: f"add to {row['written_bytes']:,.0f} B",
    "dcn": lambda row: f"{row['operation']} {row['size_bytes']:,.0f} B, {row['slices']:.0f} slices",
    "collective": lambda row: (
        f"{row['operation']} {row['size_bytes']:,.0f} B over "
        + " x ".join(f"{length} {'ring' if is_ring else 'line'}" for length, is_ring in row["axes"])
    ),
}
