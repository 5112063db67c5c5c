"""The quota: limits of a project, and their usage."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

from localsim.rules.model.cloud_errors import CloudError, Code, with_error_id
from localsim.rules.model.nodes import NodeSpec
from localsim.rules.model.quota_pools import (
    EXTERNAL_ADDRESSES,
    addresses_of_node,
    needed_quota,
    pools,
    quota_of_node,
    quota_of_request,
    region_of,
)
from localsim.rules.scenario.fault_types import QuotaOverride
from localsim.rules.state import external_addresses
from localsim.rules.state.state import State
from tpuctl import catalog


@dataclass(frozen=True, slots=True)
class QuotaUsage:
    """One quota in one region, or in one zone of it; `limit` None means that there is none."""

    quota_id: str
    region: str
    zone: str
    """Empty where the quota counts by region."""
    limit: int | None
    usage: int
    holders: tuple[str, ...]
    """Full names of the nodes and queued resources that use it."""
    unit: str


def require(state: State, zone: str, specs: Iterable[NodeSpec]) -> None:
    """Raise CloudError RESOURCE_EXHAUSTED when the quota of a zone has no room for the nodes."""
    wanted: Counter[tuple[str, str]] = Counter()
    for spec in specs:
        wanted.update(needed_quota(zone, spec))
    for (quota_id, location), amount in wanted.items():
        limit = state.conditions.quota_limit(quota_id, location)
        key = (quota_id, location)
        used = state.quota_held_by_nodes[key] + state.quota_held_by_requests[key]
        if limit is not None and used + amount > limit:
            raise _exceeded(state, quota_id, location, limit, zone)


def require_addresses(state: State, zone: str, specs: Iterable[NodeSpec]) -> None:
    """Raise CloudError RESOURCE_EXHAUSTED when the region has too few external addresses.

    The words are Compute Engine's: "Quota 'IN_USE_ADDRESSES' exceeded.  Limit: 8.0 in region
    us-central1." (github.com/hashicorp/terraform-provider-google/issues/10215 and many more).
    """
    region = region_of(zone)
    asking = filter(external_addresses.wants_addresses, specs)
    wanted = sum(spec.kind.workers for spec in asking)
    limit = state.conditions.quota_limit(EXTERNAL_ADDRESSES, region)
    if wanted and limit is not None and state.addresses_held[region] + wanted > limit:
        _count_refusal(state, EXTERNAL_ADDRESSES, region)
        sentence = f"Quota '{EXTERNAL_ADDRESSES}' exceeded. Limit: {limit}.0 in region {region}."
        raise CloudError(Code.RESOURCE_EXHAUSTED, with_error_id(sentence))


def usages(state: State) -> tuple[QuotaUsage, ...]:
    """Every quota in every zone or region that it counts in."""
    return (*_slice_usages(state), *_address_usages(state))


def address_usage(state: State, region: str) -> QuotaUsage:
    """The external addresses of a region: their limit, and the nodes that hold some."""
    return QuotaUsage(
        quota_id=EXTERNAL_ADDRESSES,
        region=region,
        zone="",
        limit=state.conditions.quota_limit(EXTERNAL_ADDRESSES, region),
        usage=state.addresses_held[region],
        holders=tuple(node.name for node in state.nodes if region in addresses_of_node(node)),
        unit="addresses",
    )


def _slice_usages(state: State) -> Iterable[QuotaUsage]:
    holders = _holders(state)
    for pool in pools():
        for zone in {pool.location(each): each for each in catalog.zones()}.values():
            location = pool.location(zone)
            held = holders.get((pool.quota_id, location), {})
            yield QuotaUsage(
                quota_id=pool.quota_id,
                region=region_of(zone),
                zone=zone if pool.scope == "zone" else "",
                limit=state.conditions.quota_limit(pool.quota_id, location),
                usage=sum(held.values()),
                holders=tuple(held),
                unit=pool.unit,
            )


def _address_usages(state: State) -> Iterable[QuotaUsage]:
    for region in dict.fromkeys(map(region_of, catalog.zones())):
        yield address_usage(state, region)


def _holders(state: State) -> Mapping[Hashable, Mapping[str, int]]:
    """How much each node and queued resource holds, by (quota id, location)."""
    holders: dict[Hashable, dict[str, int]] = {}
    held = [(node.name, quota_of_node(node)) for node in state.nodes]
    held += [(request.name, quota_of_request(request)) for request in state.requests]
    for name, amounts in held:
        for key, amount in amounts.items():
            holders.setdefault(key, {})[name] = amount
    return holders


def _exceeded(state: State, quota_id: str, location: str, limit: int, zone: str) -> CloudError:
    _count_refusal(state, quota_id, location)
    sentence = (
        f"Quota limit '{quota_id}' has been exceeded. "
        f"Limit: {limit} in region {region_of(zone)}, zone {zone}."
    )
    return CloudError(Code.RESOURCE_EXHAUSTED, with_error_id(sentence))


def _count_refusal(state: State, quota_id: str, location: str) -> None:
    state.conditions.strike(
        lambda fault: isinstance(fault, QuotaOverride) and fault.concerns(quota_id, location)
    )
