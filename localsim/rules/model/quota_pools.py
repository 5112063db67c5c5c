"""What a slice counts against: quotas, one per generation, kind of capacity and kind of slice.

Eight of the ids have been seen in Google's own messages (the tests name them); that the others
follow their pattern is assumed.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cache

from localsim.rules.model.nodes import Node, NodeSpec
from localsim.rules.model.queued_resources import QueuedResource
from tpuctl import catalog

EXTERNAL_ADDRESSES = "IN_USE_ADDRESSES"
"""Compute Engine's own limit, per region: one external address per worker that has one."""


@dataclass(frozen=True, slots=True)
class QuotaPool:
    """One quota: `unit` is cores or chips; `scope`, zone or region, is where a limit counts."""

    quota_id: str
    unit: str
    scope: str

    def location(self, zone: str) -> str:
        """The zone or region that a slice in the zone counts in."""
        return zone if self.scope == "zone" else region_of(zone)


@cache
def pool(accelerator_type: str, *, preemptible: bool) -> QuotaPool:
    """The quota of an accelerator type, apart for on-demand and preemptible (spot too) capacity.

    Raises catalog.UnknownError for a type that the Cloud TPU API does not offer.
    """
    kind = catalog.accelerator_type(accelerator_type)
    quota = catalog.generation(kind.generation).quota
    if quota is None:
        raise catalog.UnknownError("accelerator type", accelerator_type)
    quota_id = quota.quota_id(kind.size, is_preemptible=preemptible)
    return QuotaPool(quota_id, quota.unit, quota.scope)


@cache
def pools() -> tuple[QuotaPool, ...]:
    """Every quota there is for slices, by id."""
    by_id = {
        each.quota_id: each
        for kind in catalog.accelerator_types()
        for preemptible in (False, True)
        for each in [pool(kind.name, preemptible=preemptible)]
    }
    return tuple(by_id[quota_id] for quota_id in sorted(by_id))


def quota_ids() -> tuple[str, ...]:
    """The ids that a limit can be set for."""
    return (EXTERNAL_ADDRESSES, *(each.quota_id for each in pools()))


def needed_quota(zone: str, spec: NodeSpec) -> dict[tuple[str, str], int]:
    """What a node counts against (quota id, zone or region); reserved capacity counts nothing.

    Where a quota counts chips, every chip of the generation has one TensorCore.
    """
    scheduling = spec.scheduling
    if scheduling.reserved or scheduling.reservation_name:
        return {}
    of_type = pool(spec.accelerator_type, preemptible=scheduling.can_be_preempted)
    return {(of_type.quota_id, of_type.location(zone)): spec.kind.tensorcores}


def quota_of_node(node: Node) -> dict[Hashable, int]:
    """What a node holds until it is deleted; nothing where a queued resource owns it."""
    if node.queued_resource:
        return {}
    return {key: amount for key, amount in needed_quota(node.zone, node.spec).items()}


def quota_of_request(request: QueuedResource) -> dict[Hashable, int]:
    """What a request holds from its provisioning until it is deleted."""
    if not request.holds_quota:
        return {}
    first, *others = request.spec.nodes  # which are all alike
    of_one_node = needed_quota(request.zone, request.spec.with_tier(first.spec))
    return {key: amount * (1 + len(others)) for key, amount in of_one_node.items()}


def addresses_of_node(node: Node) -> dict[Hashable, int]:
    """The external addresses that a node with machines holds, by region."""
    count = len(node.external_addresses) if node.has_capacity else 0
    return {region_of(node.zone): count} if count else {}


def slices_of_node(node: Node) -> dict[Hashable, int]:
    """One slice of (zone, accelerator type) for a node with capacity that is not reserved."""
    if not node.has_capacity or node.spec.scheduling.reserved:
        return {}
    return {(node.zone, node.accelerator_type): 1}


def reserved_units_of_node(node: Node) -> dict[Hashable, int]:
    """What a node uses of its reservation, in the reservation's unit, by name."""
    name = node.spec.scheduling.reservation_name
    return {name: node.spec.kind.tensorcores} if name and node.has_capacity else {}


def region_of(zone: str) -> str:
    """The region of a zone: `us-west4` of `us-west4-a`."""
    return zone.rpartition("-")[0]
