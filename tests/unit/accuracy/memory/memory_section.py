"""The part of docs/accuracy.md about what a device holds."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from tpuctl.perfmodel.workload.memory.device_memory import memory_constants, train_memory
from tpuctl.perfmodel.workload.workload_estimate import MemoryEstimate, MemoryFit
from unit.accuracy.accuracy_scores import score
from unit.accuracy.accuracy_tables import as_table, as_text
from unit.accuracy.memory.engine_rows import engine_figures
from unit.accuracy.memory.peak_rows import GIB, PeakRow, peak_rows, peaks
from unit.accuracy.published_rows import USES

GOAL = (5, 12)
"""The median and the 90th percentile of errors that were asked for, in percent."""

_TEXT = """What one device holds at the peak of a training step, in XLA's GiB (most publications
print them as GB); rows are in `tests/unit/accuracy/memory/peak_rows.json`. Asked of rows that are
not fitted: a median of {median} % and a 90th percentile of {p90} %.

{errors}
Whether {rows} published runs fit, and what the model says of them. {false_fits} are said to fit
and did not; {false_no} are said not to fit and ran.

{fits}
- Weights and moments follow from the sharding and are exact. Four constants are fitted: the layer
  that is computed backward holds its numbers {working_sets:.2f} times, and {dispatch_copies:.2f}
  copies of what goes to experts and back; a logit has {logit_bytes:.2f} bytes; the weights of
  {gathered_layers:.2f} layers are gathered at once. The interval is {low:.2f} to {high:.2f} times
  what is not exact; its low end has the weights of one layer only.
- **Nearly all peaks are of one model and one publication** (Hunyuan 3, a mixture of experts, in
  MaxText). The held-out ones have other numbers of layers or experts, other sharding or precision;
  they were in sight when the formulas were written, and have moved no constant. Dense models are
  six rows, one of them without rematerialization of products.
- Steps that would hold more than there is ran, until not even the weights of one layer at a time
  fit: XLA then gathers less ahead and computes more again. Their modelled peak is the memory.
- What the compiler wanted of runs that it refused is not among the errors: it is what was left
  after its own rematerialization. The model differs by {demand:.0f} % in the median ({demands}
  rows).
- The model does not know weights that are gathered in fp8 (rows of FSDP 64 and 32 in fp8), masks
  for tokens that experts drop, and flags of the compiler that join collectives and products.
"""


_SERVING = """What serving engines log of their memory, of all devices together; nothing is fitted
to it. The cache is in bfloat16, with all tokens of layers with a window: so vLLM allocates it.
"""


def section() -> str:
    """The section with its heading."""
    demands = [row for row in peak_rows() if row.demand_bytes and not row.fits]
    off = [abs(_value(row) / row.demand_bytes - 1) for row in demands if row.demand_bytes]
    text = _TEXT.format(
        median=GOAL[0],
        p90=GOAL[1],
        errors=_errors(),
        rows=len(peak_rows()),
        false_fits=len(said(MemoryFit.FITS, fits=False)),
        false_no=len(said(MemoryFit.DOES_NOT_FIT, fits=True)),
        fits=_fits(),
        demand=100 * float(np.median(off)),
        demands=len(demands),
        **memory_constants(),
    )
    return f"## Memory of a device\n\n{text}\n{_every_row()}\n{_SERVING}\n{_engines()}"


def said(fit: MemoryFit, *, fits: bool) -> list[str]:
    """The runs that did or did not fit, and of which the model says so."""
    return [row.name for row in peak_rows() if row.fits == fits and _estimate(row).fit is fit]


def errors(rows: Sequence[PeakRow]) -> tuple[np.ndarray, np.ndarray]:
    """What is modelled and what was measured, in bytes."""
    measured = [row.peak_bytes for row in rows if row.peak_bytes is not None]
    return np.array([_value(row) for row in rows]), np.array(measured)


def covered(rows: Sequence[PeakRow]) -> float:
    """Percent of the rows whose peak is in the interval."""
    inside = [
        _estimate(row).low_bytes <= (row.peak_bytes or 0) <= _estimate(row).high_bytes
        for row in rows
    ]
    return float(100 * np.mean(inside))


def _errors() -> str:
    head = ["rows", "n", "median / 90th percentile, %", "in the interval"]
    rows = []
    for use in USES:
        chosen = peaks(use)
        found = as_text(score(*errors(chosen)))
        rows.append([use.replace("_", " "), str(len(chosen)), found, f"{covered(chosen):.0f} %"])
    return as_table(head, rows)


def _fits() -> str:
    counts = Counter((row.fits, str(_estimate(row).fit)) for row in peak_rows())
    head = ["", *map(str, MemoryFit)]
    names = {True: "ran, or was compiled", False: "did not fit"}
    rows = [[names[fits], *(str(counts[fits, str(fit)]) for fit in MemoryFit)] for fits in names]
    return as_table(head, rows)


def _every_row() -> str:
    head = ["run", "use", "published GiB", "modelled GiB", "error", "fits", "modelled"]
    rows = []
    for row in peak_rows():
        published = row.peak_bytes or row.demand_bytes
        value = _value(row)
        rows.append(
            [
                row.name,
                row.use.replace("_", " "),
                f"{published / GIB:.1f}" if published else "",
                f"{value / GIB:.1f}",
                f"{100 * (value / row.peak_bytes - 1):+.1f} %" if row.peak_bytes else "",
                "yes" if row.fits else "no",
                str(_estimate(row).fit),
            ]
        )
    return as_table(head, rows)


def _engines() -> str:
    head = ["engine", "what", "logged", "modelled", "error"]
    rows = [
        [
            figure.name,
            figure.what,
            f"{figure.logged:.4g} {figure.unit}",
            f"{figure.modelled:.4g} {figure.unit}",
            f"{figure.error_percent:+.1f} %",
        ]
        for figure in engine_figures()
    ]
    return as_table(head, rows)


def _estimate(row: PeakRow) -> MemoryEstimate:
    return train_memory(row.hardware, row.model, row.run)


def _value(row: PeakRow) -> float:
    return float(_estimate(row).value_bytes)
