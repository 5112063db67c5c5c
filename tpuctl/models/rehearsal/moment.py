"""A moment of a rehearsal: what goes wrong, and exactly when."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Disturbance(StrEnum):
    """What happens to the job at a moment."""

    PREEMPTION = "preemption"
    WORKER_HANGS = "worker-hangs"
    WORKER_KILLED = "worker-killed"
    WORKER_CUT_OFF = "worker-cut-off"
    WORKER_SLOW = "worker-slow"
    SUPERVISOR_KILLED = "supervisor-killed"
    STORAGE_ERRORS = "storage-errors"
    """The bucket answers 503 and 429 for a minute."""
    NO_CAPACITY = "no-capacity"
    """The slice is preempted, and its zone has no other one."""
    UNREACHABLE = "unreachable"
    """No supervisor reaches the workers, which run on."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One disturbed run of a rehearsal."""

    name: str
    """As `--only` takes it: `save:middle/none`, `restore/30s`, `worker-hangs`. Public."""
    title: str
    """For people: "in the middle of a save, without notice"."""
    disturbance: Disturbance
    timeline: tuple[Mapping[str, Any], ...]
    """Entries for the key `timeline` of the simulator's scenario (docs/scenario.md)."""
    notice_s: float | None = None
    """The notice of the preemption in seconds; None: no notice, or not a preemption."""
    place: str = ""
    """The exact place, for people: "2nd upload of gs://b/runs/x/*/shard-1"."""
    scenario: Mapping[str, Any] = field(default_factory=dict)
    """Other keys of the scenario that it needs, such as `capacity`."""
