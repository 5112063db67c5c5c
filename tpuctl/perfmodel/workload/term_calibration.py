"""Factors on the terms of estimates, from what was measured on a slice of one's own.

A factor is measured over modelled time: the geometric mean of the rows that one term rules. The
rows of products give `compute`, copies give `memory`, exchanges give `ici`. What no row rules keeps
the factor 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log

from tpuctl.perfmodel.chip.numeric import Figure
from tpuctl.perfmodel.workload.bench_rows import BenchRow, predict_row
from tpuctl.perfmodel.workload.slice_hardware import SliceHardware
from tpuctl.perfmodel.workload.workload_estimate import WorkloadEstimate

TERM_OF: Mapping[str, str] = {"matmul": "compute", "copy": "memory", "collective": "ici"}
LEAST_SHARE = 0.6
"""A row rules a term that is so much of its modelled time: the others are of small sizes."""


@dataclass(frozen=True, slots=True)
class TermCalibration:
    """Term -> measured over modelled time, and how many rows said so."""

    factors: Mapping[str, float]
    rows: Mapping[str, int]
    source: str


def calibration_from(
    hardware: SliceHardware, rows: Sequence[BenchRow], source: str
) -> TermCalibration:
    """The factors of the terms that the rows rule. Raises ValueError where they rule none."""
    logs: dict[str, list[float]] = {}
    for row in rows:
        term = TERM_OF.get(row.kind)
        modelled = predict_row(hardware, row)
        if term and modelled.terms.get(term, 0.0) >= LEAST_SHARE * modelled.value_s:
            logs.setdefault(term, []).append(log(row.measured_s / modelled.value_s))
    if not logs:
        raise ValueError("no measured row is large enough to tell a term from the rest")
    factors = {term: exp(sum(values) / len(values)) for term, values in logs.items()}
    return TermCalibration(factors, {term: len(values) for term, values in logs.items()}, source)


def calibrate(estimate: WorkloadEstimate, calibration: TermCalibration) -> WorkloadEstimate:
    """The estimate with its terms multiplied; the ends of the interval keep their distance."""
    terms = scaled(estimate.terms, calibration)
    ratio = sum(terms.values()) / sum(estimate.terms.values())
    return replace(
        estimate,
        value_s=estimate.value_s * ratio,
        low_s=estimate.low_s * ratio,
        high_s=estimate.high_s * ratio,
        terms=terms,
        hidden=scaled(estimate.hidden, calibration),
        sources=(*estimate.sources, *_texts(calibration)),
    )


def scaled(terms: Mapping[str, Figure], calibration: TermCalibration) -> dict[str, Figure]:
    """Terms, each multiplied by its factor."""
    return {name: term * calibration.factors.get(name, 1.0) for name, term in terms.items()}


def _texts(calibration: TermCalibration) -> tuple[str, ...]:
    return tuple(
        f"{term}: x {factor:.3g}, {calibration.rows[term]} measured rows of {calibration.source}"
        for term, factor in calibration.factors.items()
    )
