"""The checks of a queued resource's spec, which write a multislice out node by node."""

from dataclasses import replace

from localsim.rules.model.cloud_errors import CloudError, invalid
from localsim.rules.model.queued_resources import (
    QueuedResourceSpec,
    QueueingPolicy,
    RequestedNode,
    Tier,
)
from localsim.rules.model.resource_names import checked_id
from localsim.rules.nodes.node_validation import PROVISIONING_MODELS, checked_node
from tpuctl import catalog

MAX_SLICES = 256
"""No limit is published; this one is assumed."""
MAX_RUN_S = 7 * 86400.0
"""Flex-start runs for at most seven days."""
FLEX_START = "FLEX_START"


def checked_spec(name: str, spec: QueuedResourceSpec, now_s: float) -> QueuedResourceSpec:
    """The spec of the request `name` with one requested node per node; raises CloudError."""
    parent, _, request_id = name.partition("/queuedResources/")
    if len(spec.nodes) != 1:
        raise invalid("A queued resource must hold one node spec.")
    (wanted,) = spec.nodes
    if wanted.parent not in ("", parent):
        raise invalid(f"The node spec's parent must be '{parent}'.")
    scheduling = wanted.spec.scheduling
    # Google's sample CreateSpotQueuedResource (java-docs-samples) says so on the node alone.
    if scheduling.spot or scheduling.reserved or scheduling.reservation_name:
        raise invalid("The tier belongs to the queued resource, not to its node.")
    _check_tier(spec)
    _check_model(spec)
    ids = _node_ids(wanted, request_id)
    node = replace(wanted, parent=parent, spec=checked_node(parent, wanted.spec), multislice=None)
    if wanted.multislice is not None:
        kind = node.spec.kind
        if not catalog.generation(kind.generation).multislice:
            raise invalid(f"Multislice is not supported for accelerator type '{kind.name}'.")
    return replace(
        spec,
        nodes=tuple(replace(node, node_id=checked_id("node id", each)) for each in ids),
        queueing=spec.queueing and _moments(spec.queueing, now_s),
    )


def _node_ids(wanted: RequestedNode, request_id: str) -> list[str]:
    asked = wanted.multislice
    if asked is None:
        return [wanted.node_id]
    if wanted.node_id:
        raise invalid("Only one of 'node_id' and the parameters of a multislice can be set.")
    if not 1 < asked.node_count <= MAX_SLICES:
        raise invalid(f"The node count must be from 2 to {MAX_SLICES}, not {asked.node_count}.")
    prefix = asked.node_id_prefix or request_id
    return [f"{prefix}-{index}" for index in range(asked.node_count)]


def _check_tier(spec: QueuedResourceSpec) -> None:
    if spec.min_duration_s is not None and spec.min_duration_s < 0:
        raise invalid("The minimum duration must not be negative.")
    if spec.is_reserved and spec.tier in (Tier.SPOT, Tier.BEST_EFFORT):
        raise invalid(f"The tier '{spec.tier}' does not go with a reservation.")


def _check_model(spec: QueuedResourceSpec) -> None:
    model = spec.provisioning_model
    if model == FLEX_START:
        _check_flex_start(spec)
        return
    if model not in PROVISIONING_MODELS:
        raise invalid(f"Invalid provisioning model '{model[:128]}'.")
    if spec.max_run_duration_s is not None:
        raise invalid("A maximum run duration needs the provisioning model FLEX_START.")
    if model == "RESERVATION_BOUND" and not spec.reservation_name:
        raise invalid("The provisioning model RESERVATION_BOUND needs a 'reservation_name'.")
    if model == "SPOT" and (spec.tier not in (Tier.ON_DEMAND, Tier.SPOT) or spec.is_reserved):
        raise _contradiction(model)


def _check_flex_start(spec: QueuedResourceSpec) -> None:
    if spec.tier is not Tier.ON_DEMAND or spec.is_reserved:
        raise _contradiction(FLEX_START)
    duration_s = spec.max_run_duration_s
    if duration_s is None or not 0 < duration_s <= MAX_RUN_S:
        raise invalid(
            "The provisioning model FLEX_START needs a maximum run duration of more than 0 and at "
            f"most {MAX_RUN_S:.0f} s."
        )


def _contradiction(model: str) -> CloudError:
    return invalid(f"The provisioning model {model} does not go with the tier of the request.")


def _moments(asked: QueueingPolicy, now_s: float) -> QueueingPolicy:
    """With the moments that its durations mean; raises CloudError for windows that are none."""
    duration_s = asked.duration_s
    if duration_s is not None:
        if duration_s < 0:
            raise invalid(f"The duration '{asked.form}' must not be negative.")
        if asked.form == "valid_after_duration":
            return replace(asked, after_s=now_s + duration_s)
        asked = replace(asked, until_s=now_s + duration_s)
    if asked.until_s is not None and asked.until_s <= now_s:
        raise invalid(f"The end of the window '{asked.form}' must be in the future.")
    if asked.after_s is not None and asked.until_s is not None and asked.after_s >= asked.until_s:
        raise invalid(f"The window '{asked.form}' must end after it begins.")
    return asked
