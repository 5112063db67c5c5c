"""Where a job may run, on what, and at which price: decided once, when it is submitted."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

from tpuctl import catalog
from tpuctl.errors import PreconditionError, UsageError
from tpuctl.models.job import JobSpec
from tpuctl.models.node import Node, NodeState, Provisioning

LISTED = (Provisioning.ON_DEMAND, Provisioning.SPOT, Provisioning.FLEX_START)
"""How capacity is obtained where a list price tells what it costs."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The accelerator type, the zones in the order they are tried, and the price."""

    accelerator_type: str
    zones: tuple[str, ...]
    usd_per_hour: float | None
    """Of all slices, in the dearest of the zones; None where no price is listed."""


def place_job(spec: JobSpec, node: Node | None, zone: str, regions: Collection[str]) -> Placement:
    """Where a job runs: on the node, in the zones it names, or near its bucket.

    `zone` is the context's; `regions` are those of the bucket, as far as known. Raises UsageError,
    PreconditionError (the node's state or type).
    """
    if node is not None:
        _check_node(spec, node)
        usd = _dearest(node.accelerator_type, (node.zone,), node.provisioning)
        found = Placement(node.accelerator_type, (node.zone,), usd)
    else:
        found = _own_slices(spec, zone, regions)
    if spec.budget.usd is not None and found.usd_per_hour is None:
        raise UsageError(
            f"budget.usd: no list price of {found.accelerator_type} in "
            f"{', '.join(found.zones)} is known",
            hint="give budget.hours",
        )
    return found


def _own_slices(spec: JobSpec, zone: str, regions: Collection[str]) -> Placement:
    wanted = spec.resources
    if wanted.accelerators is None:
        raise UsageError(
            "the job file has no resources.accelerators",
            hint="add it, or run the job on an existing slice: --node NAME",
        )
    zones = _zones(wanted.accelerators, wanted.zones, zone, regions)
    usd = _dearest(wanted.accelerators, zones, wanted.provisioning)
    return Placement(wanted.accelerators, zones, None if usd is None else usd * wanted.num_slices)


def _zones(
    accelerator_type: str, named: tuple[str, ...], zone: str, regions: Collection[str]
) -> tuple[str, ...]:
    """The zones that a job file names, or those that offer the type beside the bucket."""
    offered = catalog.zones_of(accelerator_type)
    near = tuple(other for other in offered if other.rpartition("-")[0] in regions)
    wanted = named or tuple(dict.fromkeys((zone,) * (zone in offered or not near) + near))
    for tried in wanted:
        if tried not in offered:
            raise UsageError(
                f"{accelerator_type} is not offered in {tried}",
                hint=f"it is in: {', '.join(offered)}" if offered else "run: tpuctl catalog types",
            )
    return wanted


def _check_node(spec: JobSpec, node: Node) -> None:
    wanted = spec.resources.accelerators
    if node.state != NodeState.READY:
        raise PreconditionError(
            f"node {node.name!r} is {node.state}, not READY",
            hint=f"run: tpuctl node wait {node.name} --zone {node.zone}",
        )
    if wanted is not None and wanted != node.accelerator_type:
        raise PreconditionError(
            f"node {node.name!r} is a {node.accelerator_type}, and the job asks for {wanted}"
        )
    if spec.resources.num_slices > 1:
        raise UsageError(
            f"node {node.name!r} is one slice, and the job asks for {spec.resources.num_slices}",
            hint="leave out --node: the job requests slices of its own",
        )


def _dearest(accelerator_type: str, zones: Sequence[str], provisioning: str) -> float | None:
    """Dollars an hour of one slice: a budget must hold wherever the job goes."""
    if provisioning not in LISTED:
        return None
    prices = []
    for zone in zones:
        with suppress(catalog.UnknownError):
            prices.append(catalog.price(accelerator_type, zone, provisioning))
    return max((price.usd_per_hour for price in prices if price), default=None)
