"""Facts that the simulated cloud and its workers hand to each other as they are."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HostIdentity:
    """How a booted worker is known, as its guest attributes publish it."""

    hostname: str
    host_key: str
    """A line as in known_hosts, `ssh-ed25519 AAAA…`."""


@dataclass(frozen=True, slots=True)
class Maintenance:
    """UpcomingMaintenance of a slice's hosts; `type` and `status` as the API spells them."""

    type: str
    can_reschedule: bool
    window_start_s: float
    window_end_s: float
    latest_window_start_s: float
    status: str


@dataclass(frozen=True, slots=True)
class GuestAttributesEntry:
    """One guest attribute that a program on a worker has published."""

    namespace: str
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class SlicePosition:
    """The place of a slice among the slices of one request."""

    request: str
    """The full resource name, the same for all of them."""
    slice_id: int
    """The slice's number in the request: it stays the same when the slice is made again."""
    num_slices: int
    coordinator: str
    """The VPC address of worker 0 of slice 0; empty while that slice does not exist."""
