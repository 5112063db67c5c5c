"""How long a slice may live: what a person asks for as labels, and what becomes of them.

The rule itself is `tpuctl/agent/tools/lifetime.py`, which the slice applies to itself too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tpuctl.agent.tools import lifetime
from tpuctl.errors import TpuctlError, UsageError
from tpuctl.models.node import Node, NodeState

SHORTEST_S = 1.0
ATTRIBUTE = f"{lifetime.NAMESPACE}/{lifetime.ACTIVITY}"
"""The guest attribute in which a worker says when it was used."""
TTL_LABEL, IDLE_LABEL = lifetime.TTL_LABEL, lifetime.IDLE_LABEL
LIFETIME_LABELS = (TTL_LABEL, IDLE_LABEL)


@dataclass(frozen=True, slots=True)
class SliceLifetime:
    """What the labels of a node say of its end."""

    ttl: str | None
    """A duration, as the label has it."""
    delete_when_idle: str | None
    expires_s: float | None
    """When the TTL ends, in seconds since 1970; None without one that can be understood."""


def lifetime_of(labels: Mapping[str, str], created_s: float) -> SliceLifetime:
    """What the labels of a node say of its end; `created_s` is its createTime."""
    ttl, idle = (labels.get(name) for name in LIFETIME_LABELS)
    return SliceLifetime(ttl, idle, lifetime.expires_s(labels, created_s))


def duration_of(labels: Mapping[str, str]) -> int | None:
    """The seconds of the TTL; None without one that can be understood."""
    return lifetime.label_seconds(labels.get(lifetime.TTL_LABEL, ""))


def has_lifetime(labels: Mapping[str, str]) -> bool:
    """Whether the labels of a node limit how long it lives."""
    return any(name in labels for name in LIFETIME_LABELS)


def labels_of(ttl_s: float | None, idle_s: float | None) -> dict[str, str]:
    """The labels that limit the life of a slice to these durations. Raises UsageError."""
    given = {lifetime.TTL_LABEL: ttl_s, lifetime.IDLE_LABEL: idle_s}
    for name, duration_s in given.items():
        if duration_s is not None and duration_s < SHORTEST_S:
            what = name.removeprefix("tpuctl-")
            raise UsageError(f"{what} must be at least a second", hint="write it as 30m, 4h or 2d")
    return {name: lifetime.label_text(each) for name, each in given.items() if each is not None}


class ReadsAttributes(Protocol):
    """What tells the guest attributes of the workers of a node."""

    def guest_attributes(self, zone: str, name: str, query_path: str) -> list[Mapping[str, str]]:
        """What every worker, in order, has told under that path."""


def activity_reports(api: ReadsAttributes, node: Node) -> Sequence[Mapping[str, str]]:
    """What the workers of a node tell of their use, where its labels ask for that; else nothing.

    Nothing either where it cannot be read: nobody knows then whether the node is idle.
    """
    if lifetime.IDLE_LABEL not in node.labels or node.state != NodeState.READY:
        return ()
    try:
        return api.guest_attributes(node.zone, node.name, ATTRIBUTE)
    except TpuctlError:
        return ()


def overdue_reason(
    labels: Mapping[str, str],
    created_s: float,
    reports: Sequence[Mapping[str, str]],
    workers: int,
    now_s: float,
) -> str | None:
    """Why a slice is to be deleted now; None while it may stay.

    `reports` are the guest attributes of its workers, in order; none where they were not asked.
    """
    texts = [each.get(ATTRIBUTE, "") for each in reports]
    return lifetime.overdue_text(labels, created_s, texts, workers, now_s)
