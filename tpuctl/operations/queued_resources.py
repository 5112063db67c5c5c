"""Requests that wait for capacity."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tpuctl.api.keys import Access, with_key
from tpuctl.errors import CapacityError, NotFoundError, PreconditionError, PreemptedError
from tpuctl.models.node import NodeSpec
from tpuctl.models.queued_resource import (
    ENDED_STATES,
    QueuedResource,
    QueuedResourceSpec,
    QueuedResourceState,
)
from tpuctl.operations import wait
from tpuctl.operations.wait import Patience

if TYPE_CHECKING:
    from tpuctl.api.tpu import TpuApi

NEEDS_FORCE = frozenset({QueuedResourceState.ACTIVE})


def find(api: TpuApi, zone: str, name: str) -> QueuedResource:
    """The request of that name; NotFoundError says where it is when it is in another zone."""
    try:
        return api.get_queued_resource(zone, name)
    except NotFoundError:
        requests, _ = api.list_queued_resources()
    elsewhere = sorted(request.zone for request in requests if request.name == name)
    if elsewhere:
        raise NotFoundError(
            f"queued resource {name!r} is not in {zone} but in {', '.join(elsewhere)}",
            hint=f"add: --zone {elsewhere[0]}",
        )
    raise NotFoundError(
        f"there is no queued resource {name!r} in {zone}", hint="run: tpuctl qr list"
    )


def create(
    api: TpuApi, name: str, node: NodeSpec, access: Access, *, request_id: str
) -> QueuedResource:
    """File the request; it is accepted when this returns, and ACTIVE later."""
    metadata = with_key(dict(node.metadata), access)
    node = replace(node, metadata=metadata) if metadata else node
    spec = QueuedResourceSpec(name, node)
    operation = api.create_queued_resource(spec, request_id=request_id)
    wait.operation_done(api, operation, Patience(), subject=f"create queued resource {name!r}")
    return api.get_queued_resource(node.zone, name)


def until_active(api: TpuApi, zone: str, name: str, patience: Patience) -> Iterator[QueuedResource]:
    """The request at every change of state until it is ACTIVE; raises when it never will be."""
    settled = ENDED_STATES | {QueuedResourceState.ACTIVE}
    for request in wait.request_states(
        api, zone, name, patience, until=lambda request: request.state in settled
    ):
        yield request
        _raise_if_ended(request)


def require_deletable(request: QueuedResource, *, force: bool) -> None:
    """An ACTIVE request takes its node with it; raises PreconditionError without `force`."""
    if request.state in NEEDS_FORCE and not force:
        raise PreconditionError(
            f"queued resource {request.name!r} is ACTIVE: its node would be deleted too",
            hint=f"run: tpuctl qr delete {request.name} --force",
        )


def delete(api: TpuApi, request: QueuedResource) -> Callable[[Patience], None]:
    """Ask for the deletion of it and its nodes; what is returned waits until it is done."""
    operation = api.delete_queued_resource(request.zone, request.name, force=True)
    return lambda patience: wait.operation_done(
        api, operation, patience, subject=f"delete queued resource {request.name!r}"
    )


def _raise_if_ended(request: QueuedResource) -> None:
    hint = f"run: tpuctl qr delete {request.name} --zone {request.zone}"
    if request.state == QueuedResourceState.SUSPENDED:
        raise PreemptedError(f"queued resource {request.name!r} is SUSPENDED", hint=hint)
    if request.state == QueuedResourceState.FAILED:
        raise CapacityError(
            f"queued resource {request.name!r} FAILED: {request.failure or 'no reason given'}",
            hint=hint,
        )
