"""Events that the simulated cloud hands to the orchestrator, which acts on the workers."""

from dataclasses import dataclass

from localsim.rules.model.nodes import Node


@dataclass(frozen=True, slots=True)
class Event:
    """Something to do on the workers of a node."""

    node: Node


@dataclass(frozen=True, slots=True)
class BootSlice(Event):
    """Boot the workers, then call `Cloud.mark_slice_booted` or `Cloud.mark_slice_failed`."""

    never_boots: tuple[int, ...] = ()
    """Workers that stay dark: nothing answers at their addresses."""
    ssh_keys_delay_s: float = 0.0
    """Simulated seconds for which the workers let nobody in, whatever the metadata says."""


class StopSlice(Event):
    """End the workers, keep their disks, then call `Cloud.mark_slice_stopped`."""


class DestroySlice(Event):
    """End the workers at once and remove their disks."""


@dataclass(frozen=True, slots=True)
class NoticePreemption(Event):
    """Tell the workers that they will end in `notice_s` simulated seconds."""

    notice_s: float


class ShowMetadata(Event):
    """Show the node's metadata, and its external addresses, to its workers."""


@dataclass(frozen=True, slots=True)
class NoticeMaintenance(Event):
    """Show `node.maintenance` to the workers: announced, ONGOING, or None when it is over.

    With `save_until_s` it begins now: the programs that hold the chips get SIGTERM and have until
    that moment of simulated time to save and end. A StopSlice event follows.
    """

    save_until_s: float | None = None


class ApplyWorkerFaults(Event):
    """Apply what `Cloud.faults_by_worker` now says to the node's workers."""
