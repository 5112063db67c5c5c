"""What was refused and granted, where and when: the facts that say where a slice can be had."""

import hashlib
from dataclasses import dataclass
from enum import StrEnum

KEY_DIGITS = 20


class CapacityEventKind(StrEnum):
    """What became of a request for slices."""

    REFUSED = "refused"
    GRANTED = "granted"
    PREEMPTED = "preempted"


class RefusalCause(StrEnum):
    """Why a request was refused."""

    STOCKOUT = "stockout"
    """The zone had no such slice, or the reservation was too small."""
    QUOTA = "quota"
    """The project's quota was used up."""
    ADDRESSES = "addresses"
    """The region or the subnet had no addresses left."""
    PERMISSION = "permission"
    """The zone is not open to the project."""


@dataclass(frozen=True, slots=True)
class CapacityEvent:
    """What became of one request. It has no name of a person, a job or a slice."""

    key: str
    """The same for all who see the request: `request_key`, the id of a node, or a random id."""
    kind: CapacityEventKind
    time_s: float
    accelerator_type: str
    zone: str
    provisioning: str
    slices: int = 1
    cause: RefusalCause | None = None
    """Of a refusal."""
    after_s: float | None = None
    """How long a granted request had waited, or a slice had lived; None: not known."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Reserved chips or TensorCores of one generation in a zone, as the API lists them."""

    name: str
    zone: str
    generation: str
    """As the API spells it: `V5LITE_POD`."""
    state: str
    size: int
    used: int
    unit: str
    """`chips` or `TensorCores`."""

    @property
    def left(self) -> int:
        """How much of it nobody uses now; nothing while it is not ACTIVE."""
        return max(0, self.size - self.used) if self.state == "ACTIVE" else 0


def request_key(zone: str, name: str, created_s: float | None = None) -> str:
    """The key of a request, which says nothing to those who do not know its name.

    A name may be used again, so the time of the creation (seconds since 1970, by the API) is a part
    of it; the names of jobs' requests are used once, and go without.
    """
    text = f"{zone}/{name}" if created_s is None else f"{zone}/{name}@{created_s:.0f}"
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]


def node_key(node_id: int) -> str:
    """The key of a node, which has the same id for as long as it exists."""
    return f"node-{node_id}"
