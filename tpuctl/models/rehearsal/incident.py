"""What has gone wrong in a simulator."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

READY, PREEMPTION = "ready", "preemption"
FAULT_BEGAN, FAULT_ENDED = "fault-began", "fault-ended"


@dataclass(frozen=True, slots=True)
class Incident:
    """One thing that happened; the field names are keys of `GET /incidents` on the control port."""

    kind: str
    """READY, PREEMPTION, FAULT_BEGAN or FAULT_ENDED."""
    subject: str
    """The id of a node, or the text of a fault."""
    at_s: float
    """Simulated seconds since 1970; of a preemption, when its notice was given."""
    notice_s: float = 0.0


@dataclass(frozen=True, slots=True)
class IncidentHistory:
    """The incidents since the scenario began, the oldest first, and that scenario."""

    began_s: float
    """When the scenario began, in simulated seconds since 1970."""
    faults: Sequence[str]
    """The faults with which it began."""
    scenario: Mapping[str, Any]
    """The settings in force that are not the default ones."""
    incidents: Sequence[Incident]
