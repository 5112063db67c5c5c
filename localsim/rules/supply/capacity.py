"""Claims of capacity: of zones, of reservations, of external addresses."""

from collections.abc import Sequence
from dataclasses import replace

from localsim.rules.db.agenda import Action
from localsim.rules.model.cloud_errors import CloudError, Code, with_error_id
from localsim.rules.model.nodes import Node, NodeSpec
from localsim.rules.model.resource_names import zone_of
from localsim.rules.scenario.fault_types import CapacityOverride
from localsim.rules.state.state import State
from localsim.rules.supply import networks, reservations
from tpuctl import catalog

TIMELINE = "scenario"
"""The subject of what the agenda holds for the scenario itself."""


def schedule_offers(state: State, now_s: float) -> None:
    """Put an offer of capacity on the agenda for each future step of the timelines."""
    state.agenda.cancel(TIMELINE)
    start_s = state.conditions.start_s
    for step_s in state.scenario.steps_s():
        if start_s + step_s > now_s:
            state.agenda.add(start_s + step_s, Action.CHANGE_CAPACITY, TIMELINE)


def claim_capacity(state: State, node: Node, now_s: float) -> Node:
    """The node with its capacity claimed; raises the CloudError that ends its operation."""
    spec = node.spec
    networks.require_external_addresses(state, node.zone, [spec])
    granted = granted_specs(state, node.parent, [spec], now_s)
    if granted is not None:
        return replace(node, spec=granted[0], has_capacity=True)
    if spec.scheduling.reserved:
        raise reservations.insufficient_reservation(node.parent, spec, 1)
    raise CloudError(Code.RESOURCE_EXHAUSTED, _stock_out(node.zone, spec.accelerator_type))


def granted_specs(
    state: State, parent: str, specs: Sequence[NodeSpec], now_s: float
) -> tuple[NodeSpec, ...] | None:
    """The specs of all nodes, which are alike, or None where there is not enough now.

    Reserved ones name the reservation they are taken from. Raises CloudError where no reservation
    will ever suffice.
    """
    spec, zone = specs[0], zone_of(parent)
    if not spec.scheduling.reserved:
        if _free_slices(state, zone, spec, now_s) >= len(specs):
            return tuple(specs)
        _count_refusal(state, zone, spec.accelerator_type)
        return None
    reservation = reservations.choose_reservation(state, parent, spec, len(specs), now_s)
    if reservation is None:
        return None
    scheduling = replace(spec.scheduling, reservation_name=reservation.name)
    return tuple(replace(each, scheduling=scheduling) for each in specs)


def is_overdrawn(state: State, node: Node, now_s: float) -> bool:
    """Whether the zone has lost the capacity that the node was promised before it was up."""
    return (
        not node.spec.scheduling.reserved and _free_slices(state, node.zone, node.spec, now_s) < 0
    )


def late_stockout_message(node: Node) -> str:
    """Compute Engine's error for machines that are gone at the last moment."""
    return with_error_id(
        f"GCE_STOCKOUT: ZONE_RESOURCE_POOL_EXHAUSTED: the zone '{node.zone}' does not have enough "
        f"resources available for accelerator type '{node.accelerator_type}'."
    )


def _free_slices(state: State, zone: str, spec: NodeSpec, now_s: float) -> float:
    kind = spec.accelerator_type
    return state.conditions.capacity(zone, kind, now_s) - state.slices_held[zone, kind]


def _count_refusal(state: State, zone: str, kind: str) -> None:
    state.conditions.strike(
        lambda fault: isinstance(fault, CapacityOverride) and fault.concerns(zone, kind)
    )


def _stock_out(zone: str, kind: str) -> str:
    others = [other for other in catalog.zones_of(kind) if other != zone]
    return with_error_id(
        f'There is no more capacity in the zone "{zone}" for accelerator type "{kind}"; '
        f"try another zone that has it: {', '.join(others) or 'none'}."
    )
