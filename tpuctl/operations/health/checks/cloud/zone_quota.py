"""Checks of the quota in the context's zone: what is left of each, and who holds the rest."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tpuctl import catalog
from tpuctl.api.service_usage import tpu_limits
from tpuctl.catalog import AcceleratorType
from tpuctl.jobs.remaining_quota import QuotaLeft, quota_by_zone
from tpuctl.models.health import HealthCheck, HealthState
from tpuctl.models.node import Provisioning
from tpuctl.models.quota_holders import QuotaDemand, QuotaHolder, holders, region_of
from tpuctl.operations.health.checks.cloud.caller import ask_endpoint, of_one_cloud
from tpuctl.operations.health.scope import DoctorScope

QUOTA = "quota"
_MOST_NAMED = 3
_TIERS = (Provisioning.ON_DEMAND, Provisioning.SPOT)


@dataclass(frozen=True, slots=True)
class _PoolUse:
    """What is left of one quota in the zone, and who holds the rest of it."""

    smallest: AcceleratorType
    tier: Provisioning
    left: QuotaLeft
    holding: Sequence[QuotaHolder]

    @property
    def name(self) -> str:
        """Generation, size where it has a quota of its own, and tier."""
        naming = catalog.generation(self.smallest.generation).quota
        size = f" {self.smallest.size}" if naming and naming.tells_sizes_apart else ""
        return f"{self.smallest.generation}{size} {self.tier.value}"


def ask_quota(scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether each quota of the zone has room for a slice of the smallest type that it counts."""
    context = scope.context
    limits = ask_endpoint(
        scope, context.serviceusage_endpoint, lambda rest: tpu_limits(rest, context.project)
    )
    nodes, _ = scope.clients.tpu().list_nodes()
    requests, _ = scope.clients.tpu().list_queued_resources()
    uses = list(_uses(context.zone, limits, nodes, requests))
    if not uses:
        evidence = f"no limit is set in {context.zone}"
        yield HealthCheck(QUOTA, HealthState.PASS, evidence)
        return
    is_any_left = any(use.left.is_enough_for(1) for use in uses)
    for use in uses:
        yield _line_of(use, context.project, context.zone, is_any_left=is_any_left)


def _uses(
    zone: str, limits: Sequence[Any], nodes: Sequence[Any], requests: Sequence[Any]
) -> Iterator[_PoolUse]:
    for smallest in _smallest_types(zone):
        for tier in _TIERS:
            wanted = QuotaDemand(smallest.name, zone, tier)
            left = quota_by_zone(limits, nodes, requests, [zone], smallest.name, tier).get(zone)
            if left is not None:
                place = _place(smallest, zone)
                yield _PoolUse(
                    smallest, tier, left, holders(nodes, requests, wanted, location=place)
                )


def _smallest_types(zone: str) -> Sequence[AcceleratorType]:
    """The smallest type of each quota that the zone's types count against."""
    smallest: dict[str, AcceleratorType] = {}
    for kind in sorted(catalog.accelerator_types(zone=zone), key=lambda each: each.chips):
        smallest.setdefault(_quota_id(kind, Provisioning.ON_DEMAND), kind)
    return list(smallest.values())


def _line_of(use: _PoolUse, project: str, zone: str, *, is_any_left: bool) -> HealthCheck:
    name, left = f"{QUOTA} {use.name}", use.left
    there = f"{left.left} of {left.limit} {left.unit} left in {_place(use.smallest, zone)}"
    held = _holders_text(use.holding)
    if left.is_enough_for(1):
        return HealthCheck(name, HealthState.PASS, there + held)
    evidence = f"{there}{held}: no {use.smallest.name} can be created"
    if use.holding:
        fix = use.holding[0].delete_command
        return HealthCheck(name, HealthState.FAIL, evidence, fix)
    # Most projects have no quota at all for most generations: what matters is that one has some.
    state = HealthState.WARN if is_any_left else HealthState.FAIL
    return HealthCheck(name, state, evidence, _request_command(use, project, zone))


def _holders_text(holding: Sequence[QuotaHolder]) -> str:
    if not holding:
        return ""
    named = ", ".join(
        f"{each.noun} {each.name} has {each.amount} ({each.state})"
        for each in holding[:_MOST_NAMED]
    )
    more = len(holding) - _MOST_NAMED
    return f"; {named}{f' and {more} more' if more > 0 else ''}"


def _request_command(use: _PoolUse, project: str, zone: str) -> str:
    """The command that asks Google for as much quota as the smallest slice takes."""
    naming = catalog.generation(use.smallest.generation).quota
    scope = naming.scope if naming else "zone"
    return (
        f"gcloud beta quotas preferences create --service=tpu.googleapis.com --project={project} "
        f"--quota-id={_quota_id(use.smallest, use.tier)} --preferred-value={use.left.each} "
        f"--dimensions={scope}={_place(use.smallest, zone)}"
    )


def _quota_id(kind: AcceleratorType, tier: Provisioning) -> str:
    naming = catalog.generation(kind.generation).quota
    is_preemptible = tier == Provisioning.SPOT
    return naming.quota_id(kind.size, is_preemptible=is_preemptible) if naming else ""


def _place(kind: AcceleratorType, zone: str) -> str:
    naming = catalog.generation(kind.generation).quota
    return region_of(zone) if naming and naming.scope == "region" else zone


CHECKS = (of_one_cloud(QUOTA, ask_quota, "serviceusage_endpoint"),)
