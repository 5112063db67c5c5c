"""Times every collective of a slice, from small arrays to large ones.

All workers run this side by side, and agree by a sum on how often they call.
"""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from localsim.bench.stopwatch import ResultRow, comparison_row, elapsed_s, more_calls
from localsim.core import Mesh
from tpuctl import catalog
from tpuctl.perfmodel import chip as model

SIZES_BYTES: Sequence[int] = (64 << 10, 1 << 20, 16 << 20)
OPERATIONS: Mapping[str, bool] = {
    "all_reduce": True,
    "reduce_scatter": True,
    "permute": True,
    "all_gather": False,
    "all_to_all": False,
}
"""Whether each chip gives an array of that size, or its part of one."""
_ELEMENT_BYTES = 4


def collective_rows(
    mesh: Mesh, limit_s: float, sizes_bytes: Sequence[int] = SIZES_BYTES
) -> Iterator[ResultRow]:
    """Yield a row for every operation and size in bytes, for about `limit_s` seconds."""
    spent_s = 0.0
    for operation in OPERATIONS:
        for size_bytes in (divisible_size(size, mesh.chip_count) for size in sizes_bytes):
            if spent_s >= limit_s:
                return
            times_s = _times_s(mesh, _exchange(mesh, operation, size_bytes))
            spent_s += times_s[0] * len(times_s)  # the same on all workers, who stop together
            modelled = _modelled(mesh.accelerator_type, operation, size_bytes)
            yield {
                "operation": operation,
                "size_bytes": size_bytes,
                **comparison_row(statistics.median(times_s), modelled, size_bytes, "bytes"),
            }


def divisible_size(size_bytes: int, chips: int) -> int:
    """Return the next size in bytes that `chips` squared float32 parts divide."""
    least_bytes = _ELEMENT_BYTES * chips**2
    return -(-size_bytes // least_bytes) * least_bytes


def _exchange(mesh: Mesh, operation: str, size_bytes: int) -> Callable[[], object]:
    parts = 1 if OPERATIONS[operation] else mesh.chip_count
    columns = size_bytes // _ELEMENT_BYTES // mesh.chip_count // parts
    by_chip = [np.ones((mesh.chip_count, columns), np.float32)] * len(mesh.chips)
    call = getattr(mesh, operation)
    return lambda: call(by_chip)


def _times_s(mesh: Mesh, call: Callable[[], object]) -> list[float]:
    """Seconds of this worker's calls after one that warms up, the first as the slice's mean."""
    call()
    own_s = np.array([elapsed_s(call)], np.float32)
    total_s, *_ = mesh.all_reduce([own_s] * len(mesh.chips))
    first_s = float(total_s[0]) / mesh.chip_count
    return [first_s, *(elapsed_s(call) for _ in range(more_calls(first_s)))]


def _modelled(accelerator_type: str, operation: str, size_bytes: int) -> model.Estimate:
    generation = catalog.accelerator_type(accelerator_type).generation
    return model.collective(operation, generation, model.axes_of(accelerator_type), size_bytes)
