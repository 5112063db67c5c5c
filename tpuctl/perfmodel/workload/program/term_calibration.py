"""Factors on the terms of estimates, from what was measured on a slice of one's own.

A factor is measured over modelled time: the geometric mean of the rows that one term rules. The
rows of products give `compute`, copies give `memory`, exchanges give `ici`. What no row rules keeps
the factor 1, and so does every other generation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from types import MappingProxyType

from tpuctl.byte_size import count_text
from tpuctl.perfmodel.chip.numeric import Figure
from tpuctl.perfmodel.workload.program.bench_rows import BenchRow, predict_row
from tpuctl.perfmodel.workload.slice_hardware import SliceHardware
from tpuctl.perfmodel.workload.workload_estimate import WorkloadEstimate, longest_term

TERM_OF: Mapping[str, str] = MappingProxyType(
    {"matmul": "compute", "copy": "memory", "collective": "ici"}
)
ALIKE: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("compute", "matmul", "experts", "attention"), "compute"),
        **dict.fromkeys(("prefill", "computed beside"), "compute"),
        **dict.fromkeys(("memory", "optimizer", "dispatch", "weights", "cache"), "memory"),
        **dict.fromkeys(("ici", "fsdp", "data", "tensor", "sequence", "pipeline", "expert"), "ici"),
        "collectives": "ici",
    }
)
"""Term of any estimate -> the measured term whose factor it takes."""
LEAST_SHARE = 0.6
"""A row rules a term that is so much of its modelled time: the others are of small sizes."""


MOST_FACTOR = 100.0
"""What takes longer than modelled by more, or is faster, was not measured on such chips."""


@dataclass(frozen=True, slots=True)
class TermCalibration:
    """Term -> measured over modelled time on a generation, and how many rows said so."""

    generation: str
    factors: Mapping[str, float]
    rows: Mapping[str, int]
    source: str

    @property
    def texts(self) -> tuple[str, ...]:
        """A sentence for each factor."""
        return tuple(
            f"{term} on {self.generation}: x {factor:.3g}, "
            f"{count_text(self.rows[term], 'measured row')} of {self.source}"
            for term, factor in self.factors.items()
        )


def calibration_from(
    hardware: SliceHardware, rows: Sequence[BenchRow], source: str
) -> TermCalibration:
    """The factors of the terms that the rows rule.

    Raises ValueError where they rule none, and for a factor that no chip has.
    """
    logs: dict[str, list[float]] = {}
    for row in rows:
        term = TERM_OF.get(row.kind)
        modelled = predict_row(hardware, row)
        if term and modelled.terms.get(term, 0.0) >= LEAST_SHARE * modelled.value_s:
            logs.setdefault(term, []).append(log(row.measured_s / modelled.value_s))
    if not logs:
        raise ValueError("no measured row is large enough to tell a term from the rest")
    factors = {term: exp(sum(values) / len(values)) for term, values in logs.items()}
    for term, factor in factors.items():
        if not 1 / MOST_FACTOR <= factor <= MOST_FACTOR:
            raise ValueError(f"{term} took {factor:.3g} times what is modelled: not these chips")
    counts = {term: len(values) for term, values in logs.items()}
    return TermCalibration(hardware.generation, factors, counts, source)


def calibrate(
    hardware: SliceHardware, estimate: WorkloadEstimate, calibration: TermCalibration
) -> WorkloadEstimate:
    """The estimate with its terms multiplied; the ends of the interval keep their distance.

    An estimate of another generation comes back as it is.
    """
    if hardware.generation != calibration.generation:
        return estimate
    terms = scaled(estimate.terms, calibration)
    ratio = sum(terms.values()) / sum(estimate.terms.values())
    return replace(
        estimate,
        value_s=estimate.value_s * ratio,
        low_s=estimate.low_s * ratio,
        high_s=estimate.high_s * ratio,
        terms=terms,
        hidden=scaled(estimate.hidden, calibration),
        bound=longest_term(terms, estimate.value_s),
        sources=(*estimate.sources, *calibration.texts),
    )


def scaled(terms: Mapping[str, Figure], calibration: TermCalibration) -> dict[str, Figure]:
    """Terms, each multiplied by its factor."""
    factors = calibration.factors
    return {name: term * factors.get(ALIKE.get(name, ""), 1.0) for name, term in terms.items()}
