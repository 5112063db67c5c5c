"""What a client may ask for: every field of a node checked, in Google's codes."""

import re
from collections.abc import Mapping
from dataclasses import replace

from localsim.cloud.errors import invalid
from localsim.cloud.names import checked_id, last, zone_of
from localsim.cloud.nodes import AcceleratorConfig, NodeSpec
from localsim.cloud.queued_resources import QueuedResourceSpec
from tpuctl import catalog

MAX_DESCRIPTION = 512
MAX_LABELS = 64
MAX_METADATA_BYTES = 512 * 1024
_LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")


def checked_node(parent: str, spec: NodeSpec) -> NodeSpec:
    """The spec with both spellings of its accelerator type; raises CloudError."""
    kind = _accelerator_type(spec)
    zone = zone_of(parent)
    if zone not in catalog.zones_of(kind.name):
        raise _no_such_type(kind.name, zone)
    if spec.runtime_version not in catalog.runtime_versions():
        raise invalid(f"The runtime version '{spec.runtime_version}' could not be found.")
    if spec.network is not None and spec.networks:
        raise invalid("Only one of 'network_config' and 'network_configs' can be set.")
    check_texts(spec.description, spec.labels, spec.metadata)
    generation = catalog.generation(kind.generation)
    return replace(
        spec,
        accelerator_type=kind.name,
        accelerator_config=AcceleratorConfig(generation.config_enum or "", kind.topology),
    )


def checked_request(parent: str, spec: QueuedResourceSpec) -> QueuedResourceSpec:
    """The spec with its node checked; raises CloudError."""
    if len(spec.nodes) != 1:
        raise invalid("A queued resource must hold one node spec.")
    (wanted,) = spec.nodes
    if wanted.parent not in ("", parent):
        raise invalid(f"The node spec's parent must be '{parent}'.")
    checked_id("node id", wanted.node_id)
    scheduling = wanted.spec.scheduling
    if scheduling.can_be_preempted or scheduling.reserved:
        raise invalid("The tier belongs to the queued resource, not to its node.")
    return replace(
        spec, nodes=(replace(wanted, parent=parent, spec=checked_node(parent, wanted.spec)),)
    )


def check_texts(description: str, labels: Mapping[str, str], metadata: Mapping[str, str]) -> None:
    """The fields that can be changed later as well; raises CloudError."""
    if len(description) > MAX_DESCRIPTION:
        raise invalid(f"The description must have at most {MAX_DESCRIPTION} characters.")
    if len(labels) > MAX_LABELS:
        raise invalid(f"A node can have at most {MAX_LABELS} labels.")
    for key, value in labels.items():
        if not (_LABEL_KEY.fullmatch(key) and _LABEL_VALUE.fullmatch(value)):
            raise invalid(f"Invalid label '{key}': '{value}'.")
    if sum(len(key) + len(value) for key, value in metadata.items()) > MAX_METADATA_BYTES:
        raise invalid(f"The metadata must have at most {MAX_METADATA_BYTES} bytes.")


def _accelerator_type(spec: NodeSpec) -> catalog.AcceleratorType:
    config = spec.accelerator_config
    if bool(spec.accelerator_type) == bool(config):
        raise invalid("Exactly one of 'accelerator_type' and 'accelerator_config' must be set.")
    try:
        if config is not None:
            return catalog.accelerator_type_of_topology(config.type, config.topology)
        return catalog.accelerator_type(last(spec.accelerator_type))
    except catalog.UnknownError as error:
        raise invalid(
            f"The accelerator configuration for {error.kind} '{error.name}' could not be found "
            "among the accelerator configurations of the zone."
        ) from None


def _no_such_type(accelerator_type: str, zone: str) -> Exception:
    return invalid(
        f"The accelerator configuration for type '{accelerator_type}' could not be found among the "
        f"accelerator configurations of zone '{zone}'."
    )
