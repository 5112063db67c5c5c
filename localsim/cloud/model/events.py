"""What the simulated cloud asks of the outside: the workers follow, the cloud does not know how."""

from dataclasses import dataclass

from localsim.cloud.model.nodes import Node


@dataclass(frozen=True, slots=True)
class BootSlice:
    """Bring the workers up, then call `Cloud.slice_booted`."""

    node: Node
    never_boots: tuple[int, ...] = ()
    """Workers that stay dark: nothing answers at their addresses."""
    ssh_keys_delay_s: float = 0.0
    """Simulated seconds for which the workers let nobody in, whatever the metadata says."""


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
class ShowMetadata:
    """Show the node's metadata, and its external addresses, to its workers."""

    node: Node


@dataclass(frozen=True, slots=True)
class NoticeMaintenance:
    """Show `node.maintenance` to the workers: announced, begun (ONGOING), or None: it is over.

    With `save_until_s` it begins now, and the programs that hold the chips get SIGTERM and until
    that moment of simulated time to save and end; go on when they have ended or it has come.
    A StopSlice follows.
    """

    node: Node
    save_until_s: float | None = None


@dataclass(frozen=True, slots=True)
class ApplyWorkerFaults:
    """Something has befallen the node's workers, or has left them: `Cloud.worker_troubles`."""

    node: Node


Event = (
    BootSlice
    | StopSlice
    | DestroySlice
    | NoticePreemption
    | ShowMetadata
    | NoticeMaintenance
    | ApplyWorkerFaults
)
