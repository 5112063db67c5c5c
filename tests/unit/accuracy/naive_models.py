"""What is scored beside the model: predictions that need no thought, and the incumbent's own.

Where a baseline has constants, they are fitted to the same rows as the model's, and a generation
without rows has the others' mean, as the model does.
"""

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType

import numpy as np

from tpuctl import catalog
from tpuctl.perfmodel.chip import collectives
from tpuctl.perfmodel.chip.torus import Axis
from unit.accuracy import constant_fit, published_rows
from unit.accuracy.published_rows import Table
from unit.accuracy.simplex import smallest

Baseline = Callable[[Table], np.ndarray]
"""The rows to predict -> seconds; NaN where the baseline has no answer."""

_PARTS = {"gemm": 3, "memory": 2, "elementwise": 2, "collective": 2, "dcn": 2}
"""Kind -> how many constants its closed form has, and rows it takes to tell them."""


_EXCHANGES = ("collective", "dcn")


def roofline(table: Table) -> np.ndarray:
    """The longer of computing and moving, both at the peak."""
    if table.kind in _EXCHANGES:
        return _wire_s(table)
    if table.kind != "gemm":
        return _moved_bytes(table) / table.chip.hbm_bytes_per_s
    work = published_rows.work_of(table)
    compute_s = 2 * work.m * work.k * work.n / table.chip.bf16_flops
    return np.maximum(compute_s, work.hbm_bytes / table.chip.hbm_bytes_per_s)


def constant_share(table: Table) -> np.ndarray:
    """The roofline at one share of the peak, the same for every row of a kind and generation."""
    return roofline(table) / _of_generation(table, _share)


def closed_form(table: Table) -> np.ndarray:
    """Start + operations over a rate + bytes over a rate; without operations, two constants."""
    start_s, compute, memory = _of_generation(table, _three)
    return start_s + _parts(table) @ [1 / compute, 1 / memory]


def published_form(table: Table) -> np.ndarray:
    """That form with the constants that all 1,541 rows of v4's grids give, scored ones included."""
    if table.kind != "gemm" or table.generation != "v4":
        return np.full(table.uses.size, np.nan)
    operations, moved = _operations(table), _all_bytes(table)
    return 1.02e-6 + operations / 212.8e12 + moved / 383e9


def scale_sim(table: Table) -> np.ndarray:
    """SCALE-Sim TPU: the authors' prediction of the row, else their formula (linear_models.py)."""
    if "scale_sim" in table.columns:
        return table.columns["scale_sim"] * 1e-6
    if table.kind != "gemm" or table.generation != "v4":
        return np.full(table.uses.size, np.nan)
    return scale_sim_formula(table)


def scale_sim_formula(table: Table) -> np.ndarray:
    """Lines through the cycles of a 128 x 128 array, a piece below 128, below 1024 and above."""
    m, k, n = (table.columns[side] for side in "mkn")
    tiles = np.ceil(k / 128)
    cycles = np.minimum(
        (3 * 128 + m - 2) * np.ceil(n / 128) * tiles, (3 * 128 + n - 2) * np.ceil(m / 128) * tiles
    )
    longest = np.maximum(np.maximum(m, k), n)
    pieces = [0.002762 * cycles + 0.059902, 0.00036 * cycles + 0.780070]
    return 1e-6 * np.select(
        [longest < 128, longest < 1024], pieces, 0.00020227 * cycles + 29.721747
    )


BASELINES: Mapping[str, Baseline] = MappingProxyType(
    {
        "roofline at peak": roofline,
        "constant share of it": constant_share,
        "three constants": closed_form,
        "SCALE-Sim TPU": scale_sim,
    }
)

FITTED = (constant_share, closed_form)
"""Those whose constants have seen the fitted rows."""


def _of_generation(table: Table, tell: Callable[[str, str], np.ndarray | None]) -> np.ndarray:
    """What the fitted rows of the table's kind and generation tell, else the others' mean."""
    own = tell(table.kind, table.generation)
    if own is not None:
        return own
    each = [tell(table.kind, one.name) for one in catalog.generations()]
    return np.exp(np.mean([np.log(one) for one in each if one is not None], axis=0))


@cache
def _share(kind: str, generation: str) -> np.ndarray | None:
    rows = _fitted(kind, generation)
    shares = [roofline(table) / table.measured_s for table in rows]
    return np.median(np.concatenate(shares)) if rows else None


@cache
def _three(kind: str, generation: str) -> np.ndarray | None:
    """A start in seconds and two shares of peaks."""
    rows = _fitted(kind, generation)
    if sum(table.uses.size for table in rows) < _PARTS[kind]:
        return None
    parts = np.concatenate([_parts(table) for table in rows])
    measured_s = np.concatenate([table.measured_s for table in rows])

    def loss(logs: np.ndarray) -> float:
        start_s, compute, memory = np.exp(logs)
        predicted_s = start_s + parts @ [1 / compute, 1 / memory]
        return float(np.mean(np.abs(np.log(predicted_s / measured_s))))

    return np.exp(smallest(loss, np.log([1e-6, 0.8, 0.8])))


def _fitted(kind: str, generation: str) -> list[Table]:
    rows = constant_fit.fitted_rows()
    return [
        one for one in rows if (one.kind, one.generation) == (kind, generation) and one.uses.size
    ]


def _parts(table: Table) -> np.ndarray:
    """Seconds at the peaks, a row each: of padded operations, of bytes."""
    if table.kind in _EXCHANGES:
        return np.column_stack([np.zeros(table.uses.size), _wire_s(table)])
    bytes_s = _moved_bytes(table) / table.chip.hbm_bytes_per_s
    if table.kind != "gemm":
        return np.column_stack([np.zeros(table.uses.size), bytes_s])
    return np.column_stack([_operations(table) / table.chip.bf16_flops, bytes_s])


def _operations(table: Table) -> np.ndarray:
    m, k, n = (table.columns[side] for side in "mkn")
    return 2 * 8 * np.ceil(m / 8) * 128 * np.ceil(k / 128) * 128 * np.ceil(n / 128)


def _all_bytes(table: Table) -> np.ndarray:
    m, k, n = (table.columns[side] for side in "mkn")
    return 2 * (m * k + k * n + m * n)


def _moved_bytes(table: Table) -> np.ndarray:
    if table.kind == "gemm":
        return _all_bytes(table)
    if table.kind == "elementwise":
        return table.columns["read_bytes"] + table.columns["written_bytes"]
    times = np.where(table.columns["operation"] == "copy", 2, 1)
    return times * table.columns["size_bytes"]


def _wire_s(table: Table) -> np.ndarray:
    """The busiest link's bytes at its rate; between slices the network's."""
    if table.kind == "dcn":
        slices, size_bytes = (table.columns[name] for name in ("slices", "size_bytes"))
        return 2 * size_bytes * (slices - 1) / slices / table.chip.dcn_bytes_per_s
    columns = (table.columns[name] for name in ("operation", "axes", "size_bytes"))
    busiest = [
        collectives.link_bytes(operation, [Axis(*axis) for axis in axes], size_bytes)
        for operation, axes, size_bytes in zip(*columns, strict=True)
    ]
    return np.array(busiest, dtype=float) / table.chip.ici_bytes_per_s_per_link
