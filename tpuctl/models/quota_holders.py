"""What slices take of the quotas of Cloud TPU, and who holds how much of it.

Preempted nodes and suspended or failed requests hold it until they are deleted; nothing in the API
tells how much is in use, so it is counted from the lists.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tpuctl import catalog
from tpuctl.models.node import LOST_STATES, ListedNode, Provisioning
from tpuctl.models.queued_resource import ENDED_STATES, QueuedResource

DEAD_STATES = LOST_STATES | ENDED_STATES
PREEMPTIBLE = frozenset({Provisioning.SPOT, Provisioning.BEST_EFFORT})


@dataclass(frozen=True, slots=True)
class QuotaDemand:
    """The slices that a quota is needed for, or that use it."""

    accelerator_type: str
    zone: str
    provisioning: str

    @property
    def pool(self) -> tuple[str, str, str] | None:
        """Slices that share a quota: generation, tier and, where it counts, size.

        None for what draws on none of them, or is not known.
        """
        try:
            kind = catalog.accelerator_type(self.accelerator_type)
        except catalog.UnknownError:
            return None
        if self.provisioning == Provisioning.RESERVED:
            return None
        tier = "preemptible" if self.provisioning in PREEMPTIBLE else "on-demand"
        quota = catalog.generation(kind.generation).quota
        return kind.generation, tier, kind.size if quota and quota.tells_sizes_apart else ""


@dataclass(frozen=True, slots=True)
class QuotaHolder:
    """A node, or a request without nodes, that uses quota."""

    noun: str
    name: str
    slices: QuotaDemand
    state: str
    amount: int
    """Chips or TensorCores, whichever the quota counts."""

    @property
    def is_dead(self) -> bool:
        """Whether the node or request can never run again, and holds quota all the same."""
        return self.state in DEAD_STATES

    @property
    def delete_command(self) -> str:
        """The command that deletes the holder and so frees its quota."""
        return f"tpuctl {self.noun} delete {self.name} --zone {self.slices.zone}"


def holders(
    nodes: Iterable[ListedNode],
    requests: Iterable[QueuedResource],
    wanted: QuotaDemand,
    *,
    location: str,
) -> list[QuotaHolder]:
    """Everything in the zone or region that uses the same quota, the dead first."""
    listed = list(nodes)
    shown = {(node.zone, node.name) for node in listed}
    every = [_holder("node", node, 1) for node in listed]
    for request in requests:
        there = sum((request.zone, name) in shown for name in request.node_names)
        never_had_any = "quota" in (request.failure or "").lower()
        if request.state in ENDED_STATES and there < request.node_count and not never_had_any:
            every.append(_holder("qr", request, request.node_count - there))
    held = [
        each
        for each in every
        if location in (each.slices.zone, region_of(each.slices.zone))
        and each.slices.pool == wanted.pool is not None
    ]
    return sorted(held, key=lambda each: (not each.is_dead, each.slices.zone, each.name))


def _holder(noun: str, item: ListedNode | QueuedResource, count: int) -> QuotaHolder:
    slices = QuotaDemand(item.accelerator_type, item.zone, item.provisioning)
    return QuotaHolder(
        noun, item.name, slices, item.state, count * quota_amount(item.accelerator_type)
    )


def region_of(zone: str) -> str:
    """`us-west4` of `us-west4-a`."""
    return zone.rpartition("-")[0]


def unit_of(accelerator_type: str) -> str:
    """The unit of the type's quota, `chips` or `TensorCores`; raises catalog.UnknownError."""
    return "chips" if _counts_chips(catalog.accelerator_type(accelerator_type)) else "TensorCores"


def quota_amount(accelerator_type: str) -> int:
    """How much of its quota a slice takes; 0 for a type that is not in the catalog."""
    try:
        kind = catalog.accelerator_type(accelerator_type)
    except catalog.UnknownError:
        return 0
    return kind.chips if _counts_chips(kind) else kind.tensorcores


def _counts_chips(kind: catalog.AcceleratorType) -> bool:
    quota = catalog.generation(kind.generation).quota
    return quota is not None and quota.unit == "chips"
