"""A modelled figure of a whole program: value, interval, terms, bound and sources."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

import numpy as np

from tpuctl.perfmodel.chip.numeric import Figure


@dataclass(frozen=True, slots=True)
class WorkloadEstimate:
    """A modelled time in seconds, of a step or a token; it is never one that was measured.

    `terms` are seconds that add up to the value: what runs hidden beside something else is in
    `hidden`. `bound` names the term that is the longest; it is an array of names where the value
    is an array.
    """

    label: ClassVar[str] = "modelled"

    value_s: Figure
    low_s: Figure
    high_s: Figure
    terms: Mapping[str, Figure]
    hidden: Mapping[str, Figure]
    bound: str | Figure
    sources: tuple[str, ...]


def longest_term(terms: Mapping[str, Figure], like: Figure) -> str | Figure:
    """What bounds an estimate: a name, or an array of names in the shape of `like`."""
    parts = np.empty((len(terms), *np.shape(like)))
    for number, term in enumerate(terms.values()):
        parts[number] = term
    longest = np.array(list(terms))[np.argmax(parts, axis=0)]
    return longest if np.ndim(like) else str(longest)


class MemoryFit(StrEnum):
    """Whether a program fits into the memory of a device, as far as the model can tell."""

    FITS = "fits"
    """The high end of what it holds fits."""
    TIGHT = "tight"
    """It may fit."""
    DOES_NOT_FIT = "does not fit"
    """Not even the low end fits."""


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Modelled bytes of HBM that one device holds at its peak, by kind."""

    label: ClassVar[str] = "modelled"

    value_bytes: Figure
    low_bytes: Figure
    high_bytes: Figure
    kinds: Mapping[str, Figure]
    """Bytes of each kind that is there; together they are the value. `weights`, `gradients`,
    `optimizer`, `activations`, `kv_cache`; of what passes, the buffers of one layer or the logits,
    and the weights that are gathered for them; `reserve` is the runtime's."""
    usable_bytes: float
    """What a program gets of the device's HBM."""
    sources: tuple[str, ...]

    @property
    def fit(self) -> MemoryFit | Figure:
        """Whether it fits; an array of MemoryFit where the bytes are an array."""
        fits, may_fit = self.high_bytes <= self.usable_bytes, self.low_bytes <= self.usable_bytes
        fit = np.where(
            fits, MemoryFit.FITS, np.where(may_fit, MemoryFit.TIGHT, MemoryFit.DOES_NOT_FIT)
        )
        return fit if fit.ndim else MemoryFit(str(fit))
