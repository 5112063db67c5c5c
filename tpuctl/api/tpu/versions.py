"""Which version of the Cloud TPU API a call speaks: v2, and v2alpha1 for exactly what only it has.

The versions have messages of their own: the same field often has another number (NodeSpec.node is
4 in v2 and 3 in v2alpha1), so a message of one must never be sent to the other.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tpuctl.api.tpu.messages import types_of
from tpuctl.models.node import NodeSpec, Provisioning
from tpuctl.models.queued_resource import QueuedResourceSpec


@dataclass(frozen=True, slots=True)
class Version:
    """One version, and the words that only it uses; its messages are loaded when first needed."""

    name: str
    multislice: str
    """The member of a node spec that asks for several nodes."""
    has_reserved: bool
    """Whether `guaranteed.reserved` says so, rather than a wildcard reservation name."""

    @property
    def service(self) -> str:
        """The full name of the service in gRPC."""
        return f"google.cloud.tpu.{self.name}.Tpu"

    def reply_class(self, name: str) -> Any:
        """The protobuf class itself: proto-plus costs 28 us a node to read."""
        return getattr(types_of(self.name), name).pb()

    def message(self, name: str, fields: Mapping[str, Any]) -> Any:
        """A protobuf message of that name, from its fields."""
        kind = getattr(types_of(self.name), name)
        return kind.pb(kind(fields))


V2 = Version("v2", "multislice_params", has_reserved=False)
V2ALPHA1 = Version("v2alpha1", "multi_node_params", has_reserved=True)

ONLY_V2ALPHA1: Mapping[str, Callable[[NodeSpec], bool]] = {
    "Node.autocheckpoint_enabled": lambda node: node.autocheckpoint,
    "Node.boot_disk_config": lambda node: node.boot_disk is not None,
    "QueuedResource.best_effort": lambda node: node.provisioning == Provisioning.BEST_EFFORT,
    "QueuedResource.run_duration": lambda node: node.provisioning == Provisioning.FLEX_START,
}
"""What a request may say that v2 has no field for."""


def version_for(node: NodeSpec) -> Version:
    """The version whose messages have a field for everything in the specification."""
    return V2ALPHA1 if any(says(node) for says in ONLY_V2ALPHA1.values()) else V2


def request_needs_rest(spec: QueuedResourceSpec) -> bool:
    """Whether a request for slices says what no message has a field for: a run duration."""
    return spec.node.provisioning == Provisioning.FLEX_START


def node_needs_rest(spec: NodeSpec) -> bool:
    """Whether a request for one node says what no message has a field for: its reservation."""
    return bool(spec.reservation)
