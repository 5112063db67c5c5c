"""What the simulated cloud asks of the outside: the workers follow, the cloud does not know how."""

from dataclasses import dataclass

from localsim.cloud.nodes import Node


@dataclass(frozen=True, slots=True)
class BootSlice:
    """Bring the workers up, then call `Cloud.slice_booted`."""

    node: Node


@dataclass(frozen=True, slots=True)
class StopSlice:
    """End the workers, keep their disks, then call `Cloud.slice_stopped`."""

    node: Node


@dataclass(frozen=True, slots=True)
class DestroySlice:
    """End the workers at once and remove their disks."""

    node: Node


@dataclass(frozen=True, slots=True)
class NoticePreemption:
    """Tell the workers that they will be gone in `notice_s` simulated seconds."""

    node: Node
    notice_s: float


@dataclass(frozen=True, slots=True)
class MetadataChanged:
    """Show the node's metadata to its workers."""

    node: Node


Event = BootSlice | StopSlice | DestroySlice | NoticePreemption | MetadataChanged
