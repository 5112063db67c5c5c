"""Where a job may run, on what, and at which price: decided once, when it is submitted."""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tpuctl import catalog
from tpuctl.errors import PreconditionError, UsageError
from tpuctl.models.job import JobSpec, Resources
from tpuctl.models.money.current_prices import price_book
from tpuctl.models.node import Node, NodeState
from tpuctl.models.search import Place, Search, distance


@dataclass(frozen=True, slots=True)
class Placement:
    """The accelerator type and the zones that are tried first, every alternative, and the price."""

    accelerator_type: str
    zones: tuple[str, ...]
    usd_per_hour: float | None
    """The price of all slices in the dearest of the places; None where no price is listed."""
    places: tuple[Place, ...] = ()
    """Every slice that may be asked for, in the order of the job file; none for a given node."""
    left_out: tuple[str, ...] = ()
    """The alternatives that no zone near the bucket offers, when the job file names none."""


def place_job(spec: JobSpec, node: Node | None, zone: str, regions: Collection[str]) -> Placement:
    """Where a job runs: on the node, in the zones it names, or near its bucket.

    `zone` is the context's; `regions` are those of the bucket, as far as known. Raises UsageError,
    PreconditionError (the node's state or type).
    """
    if node is not None:
        _check_node(spec, node)
        usd = _usd_per_hour(node.accelerator_type, node.zone, node.provisioning)
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


def worst_usd_per_hour(places: Sequence[Place], search: Search) -> float | None:
    """What the job's requests cost together if all that may be made at once became ACTIVE.

    None where a price is not known, and then there is no `max_usd_per_hour` either.
    """
    prices = [place.usd_per_hour for place in places]
    known = sorted((usd for usd in prices if usd is not None), reverse=True)
    if len(known) < len(prices):
        return None
    worst = sum(known[: search.at_once])
    return min(worst, search.max_usd_per_hour or worst)


def _own_slices(spec: JobSpec, zone: str, regions: Collection[str]) -> Placement:
    wanted = spec.resources
    if wanted.accelerators is None:
        raise UsageError(
            "the job file has no resources.accelerators",
            hint="add it, or run the job on an existing slice: --node NAME",
        )
    left_out = _not_near(wanted, zone, regions)
    kinds = [kind for kind in wanted.types if kind not in left_out]
    places = tuple(
        _place(spec, kind, each, regions)
        for kind in kinds
        for each in _zones(kind, wanted, zone, regions)
    )
    _check_prices(places, spec.search.max_usd_per_hour)
    usd = max((place.usd_per_hour for place in places if place.usd_per_hour), default=None)
    zones = tuple(dict.fromkeys(place.zone for place in places))
    return Placement(kinds[0], wanted.zones or zones, usd, places, left_out)


def _not_near(wanted: Resources, zone: str, regions: Collection[str]) -> tuple[str, ...]:
    """Alternatives that are not offered where others are; none when that is true of all."""
    if wanted.zones or not wanted.alternatives:
        return ()
    near = {zone.rpartition("-")[0], *regions}
    far = tuple(
        kind
        for kind in wanted.types
        if near.isdisjoint(other.rpartition("-")[0] for other in catalog.zones_of(kind))
    )
    return far if len(far) < len(wanted.types) else ()


def _place(spec: JobSpec, kind: str, zone: str, regions: Collection[str]) -> Place:
    wanted = spec.resources
    usd = _usd_per_hour(kind, zone, wanted.provisioning)
    total_usd = None if usd is None else usd * wanted.num_slices
    return Place(zone, kind, total_usd, distance(zone, regions))


def _zones(
    accelerator_type: str, wanted: Resources, zone: str, regions: Collection[str]
) -> tuple[str, ...]:
    """The zones that a job file names, or those that offer the type beside the bucket."""
    offered = catalog.zones_of(accelerator_type)
    near = tuple(other for other in offered if other.rpartition("-")[0] in regions)
    found = wanted.zones or tuple(dict.fromkeys((zone,) * (zone in offered or not near) + near))
    if wanted.zones and wanted.alternatives:
        found = tuple(other for other in found if other in offered) or found
    for tried in found:
        if tried not in offered:
            raise UsageError(
                f"{accelerator_type} is not offered in {tried}",
                hint=f"it is in: {', '.join(offered)}" if offered else "run: tpuctl catalog types",
            )
    return found


def _check_prices(places: Sequence[Place], max_usd: float | None) -> None:
    """Every place alone must be within what the search may cost."""
    for place in places if max_usd is not None else ():
        what = f"{place.accelerator_type} in {place.zone}"
        if place.usd_per_hour is None:
            raise UsageError(
                f"search.max_usd_per_hour: no list price of {what} is known",
                hint="leave it out, or name other zones in resources.zones",
            )
        if place.usd_per_hour > (max_usd or 0.0):
            raise UsageError(
                f"search.max_usd_per_hour is {max_usd:g}, and {what} alone costs "
                f"{place.usd_per_hour:.2f} USD/h",
                hint="raise it, or leave that type or zone out: tpuctl catalog prices",
            )


def _check_node(spec: JobSpec, node: Node) -> None:
    types = spec.resources.types
    if node.state != NodeState.READY:
        raise PreconditionError(
            f"node {node.name!r} is {node.state}, not READY",
            hint=f"run: tpuctl node wait {node.name} --zone {node.zone}",
        )
    if types and node.accelerator_type not in types:
        raise PreconditionError(
            f"node {node.name!r} is a {node.accelerator_type}, and the job asks for "
            f"{' or '.join(types)}"
        )
    if spec.resources.num_slices > 1:
        raise UsageError(
            f"node {node.name!r} is one slice, and the job asks for {spec.resources.num_slices}",
            hint="leave out --node: the job requests slices of its own",
        )


def _usd_per_hour(accelerator_type: str, zone: str, provisioning: str) -> float | None:
    """Dollars an hour of one slice by the prices of the context; None where there is none."""
    price = price_book().price_at(accelerator_type, zone, provisioning, time.time())
    return price.usd_per_hour if price else None
