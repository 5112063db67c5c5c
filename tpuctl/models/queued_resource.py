"""A queued resource: a request that becomes a node when there is capacity."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tpuctl.models.node import NodeSpec


class QueuedResourceState(StrEnum):
    """The states the API has; one it may add later is kept as the string it came as."""

    CREATING = "CREATING"
    ACCEPTED = "ACCEPTED"
    PROVISIONING = "PROVISIONING"
    FAILED = "FAILED"
    DELETING = "DELETING"
    ACTIVE = "ACTIVE"
    SUSPENDING = "SUSPENDING"
    SUSPENDED = "SUSPENDED"
    WAITING_FOR_RESOURCES = "WAITING_FOR_RESOURCES"


ENDED_STATES = frozenset({QueuedResourceState.FAILED, QueuedResourceState.SUSPENDED})
"""Such a request never becomes ACTIVE by itself, and holds quota until it is deleted."""


@dataclass(frozen=True, slots=True)
class Queueing:
    """When a request may be granted: each end a duration from now, a moment, or open.

    The moments are seconds since the epoch.
    """

    after_duration_s: float | None = None
    after_s: float | None = None
    until_duration_s: float | None = None
    until_s: float | None = None

    def interval(self, now_s: float) -> tuple[float, float] | None:
        """Both ends as moments, where both are given."""
        after_s, until_s = self.after_s, self.until_s
        if self.after_duration_s is not None:
            after_s = now_s + self.after_duration_s
        if self.until_duration_s is not None:
            until_s = now_s + self.until_duration_s
        return None if after_s is None or until_s is None else (after_s, until_s)


@dataclass(frozen=True, slots=True)
class QueuedResourceSpec:
    """A request by the user; with a `node_count` its nodes are `<node.name>-0` and so on."""

    name: str
    node: NodeSpec
    node_count: int | None = None
    queueing: Queueing = Queueing()
    max_run_duration_s: float | None = None
    """How long its nodes live; flex-start alone has it."""

    @property
    def node_names(self) -> tuple[str, ...]:
        """The names of its nodes."""
        if self.node_count is None:
            return (self.node.name,)
        return tuple(f"{self.node.name}-{number}" for number in range(self.node_count))


@dataclass(frozen=True, slots=True)
class QueuedResource:
    """A request as the API describes it."""

    name: str
    zone: str
    state: str
    initiator: str
    node_names: tuple[str, ...]
    accelerator_type: str
    runtime_version: str
    provisioning: str
    created_s: float
    failure: str | None = None
    failure_code: int = 0
    reservation: str = ""
    valid_after_s: float | None = None
    valid_until_s: float | None = None
    max_run_duration_s: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    """The labels of its nodes."""

    @property
    def node_count(self) -> int:
        """The number of slices that the request asks for."""
        return max(1, len(self.node_names))
