"""A modelled figure of a whole program: value, interval, terms, bound and sources."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

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


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Modelled bytes of HBM that one device holds at its peak, by kind."""

    label: ClassVar[str] = "modelled"

    value_bytes: Figure
    low_bytes: Figure
    high_bytes: Figure
    kinds: Mapping[str, Figure]
    """weights, gradients, optimizer, activations, kv_cache, buffers: bytes of each."""
    usable_bytes: float
    """What a program gets of the device's HBM."""
    sources: tuple[str, ...]
