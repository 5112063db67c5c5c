"""What a supervisor may no longer do once its lease is gone: write, and change slices.

A controller sees the backends through this fence alone. A supervisor that was stopped past its
lease and goes on finds its heartbeat stale, so its next write is refused; before every change of a
slice the lease itself is read again. What slips through in the instant after that is harmless:
records are replaced by generation, slices have the name of their job and attempt, agents know the
fence.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tpuctl.jobs.interfaces import Backends, SliceApi
from tpuctl.jobs.leases import lease as leasing
from tpuctl.jobs.leases.heartbeat import Heartbeat
from tpuctl.jobs.leases.lease import Lease, LeaseLostError
from tpuctl.models.node import Node
from tpuctl.models.operation import Operation
from tpuctl.models.queued_resource import QueuedResource, QueuedResourceSpec
from tpuctl.store import Entry, Source, Store


@dataclass(frozen=True, slots=True)
class LeaseGuard:
    """Tells whether this supervisor still holds the lease of a job."""

    store: Store
    lease: Lease
    heartbeat: Heartbeat

    def check(self) -> None:
        """Check by the heartbeat. Raises LeaseLostError; TransientError while it is stale."""
        self.heartbeat.check()

    def confirm(self) -> None:
        """Check by reading the lease again. Raises LeaseLostError, TransientError and its kin."""
        self.check()
        if not self.lease.is_same_hold(leasing.load_lease(self.store, self.lease.job_id)):
            raise LeaseLostError
        self.check()


@dataclass(frozen=True, slots=True)
class FencedStore:
    """A store that takes nothing from a supervisor whose leases are not renewed."""

    store: Store
    guard: LeaseGuard

    @property
    def url(self) -> str:
        """The URL of the store itself."""
        return self.store.url

    def put_if_absent(self, key: str, data: Source) -> Entry:
        """Put through the store. Raises LeaseLostError, TransientError as well."""
        self.guard.check()
        return self.store.put_if_absent(key, data)

    def put_if_generation(self, key: str, data: Source, generation: int) -> Entry:
        """Put through the store. Raises LeaseLostError, TransientError as well."""
        self.guard.check()
        return self.store.put_if_generation(key, data, generation)

    def delete(self, key: str, *, generation: int | None = None) -> bool:
        """Delete through the store. Raises LeaseLostError, TransientError as well."""
        self.guard.check()
        return self.store.delete(key, generation=generation)

    def get_range(
        self, key: str, start: int = 0, end: int | None = None, *, generation: int | None = None
    ) -> bytes:
        """Read through the store: reading needs no lease."""
        return self.store.get_range(key, start, end, generation=generation)

    def read_into(self, key: str, start: int, buffer: memoryview, *, generation: int) -> None:
        """Read through the store: reading needs no lease."""
        self.store.read_into(key, start, buffer, generation=generation)

    def head(self, key: str) -> Entry | None:
        """Read through the store: reading needs no lease."""
        return self.store.head(key)

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """List through the store: reading needs no lease."""
        return self.store.list(prefix)


@dataclass(frozen=True, slots=True)
class FencedSliceApi:
    """The Cloud TPU API, which is asked for a change only after the lease was read again."""

    tpu: SliceApi
    guard: LeaseGuard

    def update_node(self, zone: str, name: str, changes: Mapping[str, Any]) -> Operation:
        """Ask the API after the lease was confirmed. Raises LeaseLostError as well."""
        self.guard.confirm()
        return self.tpu.update_node(zone, name, changes)

    def create_queued_resource(self, spec: QueuedResourceSpec, *, request_id: str) -> Operation:
        """Ask the API after the lease was confirmed. Raises LeaseLostError as well."""
        self.guard.confirm()
        return self.tpu.create_queued_resource(spec, request_id=request_id)

    def delete_queued_resource(self, zone: str, name: str, *, force: bool) -> Operation:
        """Ask the API after the lease was confirmed. Raises LeaseLostError as well."""
        self.guard.confirm()
        return self.tpu.delete_queued_resource(zone, name, force=force)

    def get_node(self, zone: str, name: str) -> Node:
        """Ask the API: reading needs no lease."""
        return self.tpu.get_node(zone, name)

    def get_queued_resource(self, zone: str, name: str) -> QueuedResource:
        """Ask the API: reading needs no lease."""
        return self.tpu.get_queued_resource(zone, name)


def fenced_backends(backends: Backends, lease: Lease, heartbeat: Heartbeat) -> Backends:
    """The backends for the controller of one job: changes need its lease."""
    guard = LeaseGuard(backends.store, lease, heartbeat)
    return replace(
        backends, store=FencedStore(backends.store, guard), tpu=FencedSliceApi(backends.tpu, guard)
    )
