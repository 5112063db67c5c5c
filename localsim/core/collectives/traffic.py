"""What a collective costs each chip of a group: the bytes it sends, and the modelled time."""

from functools import lru_cache

from localsim.core.chip import costs
from localsim.core.chip.counters import Counters
from localsim.core.collectives import torus
from tpuctl import catalog
from tpuctl.perfmodel import chip as model


@lru_cache(4096)
def collective_cost(
    accelerator_type: str, operation: str, group: range, size_bytes: int, hops: int = 1
) -> Counters:
    """Return what a collective costs one chip of a group that gives `size_bytes`.

    Waiting for the other chips is not in it.

    Groups that lie within each other have their links in common: the time is that of all their
    bytes. So it is when a permute goes several places far.
    """
    chip_count = len(group)
    if chip_count == 1 or hops == 0:
        return Counters()
    axes, sharing = torus.torus_span(accelerator_type, group)
    generation = catalog.accelerator_type(accelerator_type).generation
    whole_bytes, sent_bytes = _bytes(operation, size_bytes, chip_count)
    estimate = model.collective(operation, generation, axes, whole_bytes * sharing * hops)
    counted = Counters(ici_bytes=sent_bytes, modelled_s=float(estimate.value_s))
    return costs.with_energy(generation, counted)


def _bytes(operation: str, given: int, chips: int) -> tuple[int, int]:
    """The bytes of the whole array, which the model asks for, and those that each chip sends."""
    others = chips - 1
    return {
        "all_reduce": (given, 2 * given * others // chips),
        "all_gather": (given * chips, given * others),
        "reduce_scatter": (given, given * others // chips),
        "all_to_all": (given * chips, given * others // chips),
        "permute": (given, given),
    }[operation]
