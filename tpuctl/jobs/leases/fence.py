"""What a supervisor may no longer do once its lease is gone: write, and change slices.

A controller sees the backends through this fence alone. A supervisor that was stopped past its
lease and goes on finds its heartbeat stale, so its next write is refused; before every change of a
slice the lease itself is read again. What slips through in the instant after that is harmless:
records are replaced by generation, slices have the name of their job and attempt, agents know the
fence.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

from tpuctl.jobs.interfaces import Backends, SliceApi
from tpuctl.jobs.leases import lease as leasing
from tpuctl.jobs.leases.heartbeat import Heartbeat
from tpuctl.jobs.leases.lease import Lease, LeaseLostError
from tpuctl.store import Store

STORE_READS = frozenset({"url", "get_range", "read_into", "head", "list"})
SLICE_READS = frozenset({"get_node", "get_queued_resource"})


@dataclass(frozen=True, slots=True)
class Fenced:
    """Passes calls on to a client; each that is not one of its reads is checked before."""

    _client: Any
    _reads: frozenset[str]
    _check: Callable[[], None]
    """Raises LeaseLostError, TransientError and its kin."""

    def __getattr__(self, name: str) -> Any:
        """The client's attribute: a change that is new to the client needs the lease as well."""
        attribute = getattr(self._client, name)
        if name in self._reads:
            return attribute

        def checked(*args: Any, **options: Any) -> Any:
            self._check()
            return attribute(*args, **options)

        return checked


def fenced_backends(backends: Backends, lease: Lease, heartbeat: Heartbeat) -> Backends:
    """The backends for the controller of one job: changes need its lease.

    A write to the store needs a heartbeat that is fresh; a change of a slice, a lease that was
    read again as well.
    """
    store, confirm = backends.store, lease_check(backends.store, lease, heartbeat)
    return replace(
        backends,
        store=cast(Store, Fenced(store, STORE_READS, heartbeat.check)),
        tpu=cast(SliceApi, Fenced(backends.tpu, SLICE_READS, confirm)),
    )


def lease_check(store: Store, lease: Lease, heartbeat: Heartbeat) -> Callable[[], None]:
    """What reads a lease again and raises LeaseLostError when it is gone, TransientError."""

    def confirm() -> None:
        heartbeat.check()
        if not lease.is_same_hold(leasing.load_lease(store, lease.job_id)):
            raise LeaseLostError
        heartbeat.check()

    return confirm
