"""The whole measurement, as JSON objects that come when they are known.

The first says what is measured, and how many rows there are to be; then come the rows, each with
its `kind`. When time is over the rest is left out.
"""

import json
import os
import time
from collections.abc import Generator
from typing import Any

from localsim.bench import collectives, machine_limits, matmuls, slice_processes
from localsim.bench.bench_error import PRECONDITION, USAGE, BenchError
from localsim.core.chip import backends
from tpuctl import catalog

_LEAST_S = 1e-3
"""The last product may have taken the time of the collectives: one of them is measured anyway."""


def bench(accelerator_type: str, limit_s: float) -> Generator[dict[str, Any], None, None]:
    """Measure products on one chip of the type and collectives of its slice, for `limit_s`.

    Raises BenchError where the type is unknown or too large for this machine, and for a backend
    that cannot be.
    """
    kind = _kind(accelerator_type)
    processors = os.cpu_count() or 1
    machine_limits.check_machine(
        kind,
        max(collectives.SIZES_BYTES),
        processors=processors,
        available_bytes=machine_limits.available_bytes(),
    )
    yield _about(kind, processors)
    ends_s = time.monotonic() + limit_s
    has_more = kind.chips > 1
    half_s = ends_s - limit_s / 2 if has_more else ends_s
    for row in matmuls.matmul_rows(kind.generation, lambda: time.monotonic() >= half_s):
        yield {"kind": "matmul", **row}
    if has_more:
        for line in slice_processes.worker_output(kind, max(_LEAST_S, ends_s - time.monotonic())):
            yield {"kind": "collective", **json.loads(line)}


def _kind(accelerator_type: str) -> catalog.AcceleratorType:
    try:
        kind = catalog.accelerator_type(accelerator_type)
    except catalog.UnknownError as error:
        raise BenchError(str(error), USAGE) from error
    try:
        backends.backend_name()
    except ValueError as error:
        raise BenchError(str(error), PRECONDITION) from error
    return kind


def _about(kind: catalog.AcceleratorType, processors: int) -> dict[str, Any]:
    """What is measured, and on what."""
    products = len(matmuls.SHAPES) * len(matmuls.DTYPES)
    exchanges = len(collectives.OPERATIONS) * len(collectives.SIZES_BYTES)
    return {
        "kind": "about",
        "accelerator_type": kind.name,
        "generation": kind.generation,
        "topology": kind.topology,
        "chips": kind.chips,
        "workers": kind.workers,
        "processors": processors,
        "rows": products + (exchanges if kind.chips > 1 else 0),
    }
