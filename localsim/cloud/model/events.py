"""Events that the simulated cloud hands to the orchestrator, which acts on the workers."""

from dataclasses import dataclass

from localsim.cloud.model.nodes import Node


@dataclass(frozen=True, slots=True)
class BootSlice:
    """Boot the workers, then call `Cloud.mark_slice_booted` or `Cloud.mark_slice_failed`."""

    node: Node
    never_boots: tuple[int, ...] = ()
    """Workers that stay dark: nothing answers at their addresses."""
    ssh_keys_delay_s: float = 0.0
    """Simulated seconds for which the workers let nobody in, whatever the metadata says."""


@dataclass(frozen=True, slots=True)
class StopSlice:
    """End the workers, keep their disks, then call `Cloud.mark_slice_stopped`."""

    node: Node


@dataclass(frozen=True, slots=True)
class DestroySlice:
    """End the workers at once and remove their disks."""

    node: Node


@dataclass(frozen=True, slots=True)
class NoticePreemption:
    """Tell the workers that they will end in `notice_s` simulated seconds."""

    node: Node
    notice_s: float


@dataclass(frozen=True, slots=True)
class ShowMetadata:
    """Show the node's metadata, and its external addresses, to its workers."""

    node: Node


@dataclass(frozen=True, slots=True)
class NoticeMaintenance:
    """Show `node.maintenance` to the workers: announced, ONGOING, or None when it is over.

    With `save_until_s` it begins now: the programs that hold the chips get SIGTERM and have until
    that moment of simulated time to save and end. A StopSlice event follows.
    """

    node: Node
    save_until_s: float | None = None


@dataclass(frozen=True, slots=True)
class ApplyWorkerFaults:
    """Apply what `Cloud.faults_by_worker` now says to the node's workers."""

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
