"""The services that a job needs, as narrow interfaces; tpuctl.jobs.backends puts them together."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

from tpuctl.api.compute import AddressReader
from tpuctl.jobs.remaining_quota import QuotaReader
from tpuctl.ledger.slice_notes import Look
from tpuctl.models.node import Node, Worker
from tpuctl.models.operation import CommandResult, Operation
from tpuctl.models.queued_resource import QueuedResource, QueuedResourceSpec
from tpuctl.store import Store


class WorkerShell(Protocol):
    """One open connection to one worker."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *error: Any) -> None: ...

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float | None = None
    ) -> CommandResult:
        """Run argv to its end; raises TransientError."""

    def stream(self, argv: Sequence[str], *, stdin: bytes = b"") -> AsyncIterator[bytes]:
        """What argv prints, as it comes; raises TransientError, CommandFailedError."""


class PortDialer(Protocol):
    """Connects to ports of workers, on the way of a context."""

    async def __call__(self, node: Node, worker: Worker, port: int) -> socket.socket:
        """A connection to a port of a worker; raises TransientError, RefusedError."""


OpenShell = Callable[[Node, Worker], Awaitable[WorkerShell]]
"""Logs in to a worker of a node, its number that in its gang; TransientError, RefusedError."""
OpenStore = Callable[[str], Store]
"""The store at a `gs://bucket/prefix`."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks that jobs read and sleep by; tests have their own."""

    now: Callable[[], float]
    monotonic: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    elapsed: Callable[[], float] | None = None
    """A clock that goes on while the machine is suspended, where it is not `monotonic`."""


def _elapsed_s() -> float:
    """Seconds since some moment, with those of suspension: a lease ends in them as well."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


_BOOTED_S = time.time() - _elapsed_s()


def _steady_now_s() -> float:
    """Seconds since 1970, by the machine's clock as it was when this process began.

    A clock that is set a day forward would else end what may take less than that.
    """
    return _BOOTED_S + _elapsed_s()


SYSTEM_CLOCKS = Clocks(_steady_now_s, time.monotonic, asyncio.sleep, _elapsed_s)
"""Those of this machine."""


class SliceApi(Protocol):
    """The part of the Cloud TPU API that jobs use."""

    def get_node(self, zone: str, name: str) -> Node:
        """One node; raises NotFoundError."""

    def update_node(self, zone: str, name: str, changes: Mapping[str, Any]) -> Operation:
        """Replace whole fields of a READY node."""

    def get_queued_resource(self, zone: str, name: str) -> QueuedResource:
        """One request; raises NotFoundError."""

    def create_queued_resource(self, spec: QueuedResourceSpec, *, request_id: str) -> Operation:
        """File a request, once per request id."""

    def delete_queued_resource(self, zone: str, name: str, *, force: bool) -> Operation:
        """Delete a request and its node; raises NotFoundError."""


class WantedSlices(NamedTuple):
    """Slices that are about to be asked for."""

    usd_per_hour: float | None
    """Of all of them together; None: no price is known, and then no limit counts them."""
    lasts_s: float | None = None
    """For how long they are there at most; None: not known."""
    most_usd: float | None = None
    """What they cost at most; None: not known."""
    own_names: frozenset[str] = frozenset()
    """The names of what is replaced by them or is they: it is not counted."""


class LimitAnswer(NamedTuple):
    """Whether slices exceed what the context may cost."""

    excess: str
    """Which limit they exceed, with all numbers; empty: none."""
    hint: str
    """What to do about it."""
    usd_left: float | None
    """How many USD/h may be added without them; None: any number."""


LimitCheck = Callable[[Sequence[WantedSlices]], list[LimitAnswer]]
"""Each of some alternatives -> whether it exceeds a limit; raises TransientError and its kin."""


class NodeApi(Protocol):
    """The part of the Cloud TPU API that finds and deletes nodes, whoever made them."""

    def read_nodes(self, zone: str = ...) -> tuple[list[Node], list[str]]:
        """Every node of all zones, and the zones that did not answer."""

    def get_node(self, zone: str, name: str) -> Node:
        """One node; raises NotFoundError."""

    def guest_attributes(self, zone: str, name: str, query_path: str) -> list[Mapping[str, str]]:
        """What every worker, in order, has told under that path."""

    def delete_node(self, zone: str, name: str) -> Operation:
        """Delete a node; raises NotFoundError."""

    def delete_queued_resource(self, zone: str, name: str, *, force: bool) -> Operation:
        """Delete a request and its nodes; raises NotFoundError."""


@dataclass(frozen=True, slots=True)
class Backends:
    """The clients of one context."""

    context: str
    zone: str
    bucket: str
    storage_endpoint: str
    store: Store
    tpu: SliceApi
    open_shell: OpenShell
    key_line: str
    """Our public key, as a line of a node's `ssh-keys` metadata."""
    open_store: OpenStore
    dial_port: PortDialer | None = None
    """How a port of a worker is reached; None: not from here."""
    project: str = ""
    quota: QuotaReader | None = None
    """How to ask what is left of it."""
    addresses: AddressReader | None = None
    """How to ask how many external addresses a region has left."""
    look: Look | None = None
    """How to look at all slices of the project; None: nobody notes what they cost."""
    nodes: NodeApi | None = None
    """What a supervisor deletes overdue slices by; None: it leaves them alone."""
    check_limit: LimitCheck | None = None
    """Whether slices exceed what the context may cost; None: it may cost anything."""
    read_secret: Callable[[str], str] | None = None
    """The value at a `sm://` reference, by this machine's credentials; raises TpuctlError."""
