"""When a slice was billed: from READY until it was stopped, lost or deleted, by the second."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple


class BillingEdge(NamedTuple):
    """A moment (seconds since 1970) at which billing began or ended.

    An exact one is a timestamp of the API's own; another one lies somewhere from `earliest_s` to
    `latest_s`, and `at_s` is the estimate.
    """

    at_s: float
    earliest_s: float
    latest_s: float

    @classmethod
    def exact(cls, at_s: float) -> BillingEdge:
        """A moment that the API has told."""
        return cls(at_s, at_s, at_s)


class BilledInterval(NamedTuple):
    """A time in which a slice was READY, and so paid for."""

    begin: BillingEdge
    end: BillingEdge
    is_open: bool = False
    """It goes on: the end is the moment of the question."""


@dataclass(frozen=True, slots=True)
class SliceIdentity:
    """What a slice is for as long as it lives; an empty text is not known."""

    node_id: str
    """What the API calls the node for ever: its name may be used again."""
    name: str = ""
    zone: str = ""
    accelerator_type: str = ""
    provisioning: str = ""
    request: str = ""
    """The queued resource that owns it."""
    job_id: str = ""
    owner: str = ""
    created_s: float | None = None


@dataclass(frozen=True, slots=True)
class SliceLife:
    """One slice: what it is, and when it was billed."""

    identity: SliceIdentity
    intervals: tuple[BilledInterval, ...] = ()
    """One after the other."""
    labels: tuple[tuple[float, Mapping[str, str]], ...] = ()
    """The labels that it has from each moment on; the first ones count from the beginning."""
    is_running: bool = False
    """It is billed now."""
    is_ended: bool = False
    """It is gone for good, or never becomes READY again."""

    def labels_at(self, moment_s: float) -> Mapping[str, str]:
        """The labels that a slice had at a moment."""
        found: Mapping[str, str] = self.labels[0][1] if self.labels else {}
        for since_s, labels in self.labels:
            if since_s <= moment_s:
                found = labels
        return found

    def label_changes(self, begin_s: float, end_s: float) -> Iterator[float]:
        """The moments inside of a time at which its labels changed."""
        return (since_s for since_s, _ in self.labels[1:] if begin_s < since_s < end_s)
