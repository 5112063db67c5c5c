"""Requests that wait for capacity."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tpuctl.api.ssh.keys import Access, with_key
from tpuctl.api.tpu.explain import error_for
from tpuctl.api.tpu.hints import QR, CallSubject, other_zones_hint
from tpuctl.errors import (
    CapacityError,
    ConflictError,
    NotFoundError,
    PreconditionError,
    PreemptedError,
    TpuctlError,
    TransientError,
)
from tpuctl.models.limits.switch_script import with_switch
from tpuctl.models.node import Node
from tpuctl.models.operation import Operation, Status
from tpuctl.models.queued_resource import (
    ENDED_STATES,
    QueuedResource,
    QueuedResourceSpec,
    QueuedResourceState,
)
from tpuctl.models.quota_holders import QuotaDemand
from tpuctl.operations.slices import same_creation, wait
from tpuctl.operations.slices.quota_advice import name_holders
from tpuctl.operations.slices.specs import missing_error
from tpuctl.operations.slices.wait import Patience

if TYPE_CHECKING:
    from tpuctl.api.tpu.tpu import TpuApi

SUSPENDED_BY = {"SERVICE": ": its node was taken away", "USER": ": its node was deleted"}


def other_zones(request: QueuedResource) -> str | None:
    """The command that shows which other zones have the type of a request; None: no other has."""
    return other_zones_hint(
        CallSubject("", QR, zone=request.zone, accelerator_type=request.accelerator_type)
    )


def find(api: TpuApi, zone: str, name: str) -> QueuedResource:
    """The request of that name. Raises NotFoundError, which names the zone if it is in another."""
    try:
        return api.describe_queued_resource(zone, name)
    except NotFoundError:
        requests, _ = api.list_queued_resources()
    raise missing_error("queued resource", name, zone, requests, "tpuctl qr list")


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """A request that is being filed."""

    accepted: Callable[[Patience], QueuedResource]
    """Waits until it is accepted, long before it is ACTIVE."""
    was_there: bool
    """An earlier create of the same specification has filed it."""


def create(
    api: TpuApi, spec: QueuedResourceSpec, access: Access, *, request_id: str
) -> PendingRequest:
    """File a request; what answers the same create already is adopted.

    Raises ConflictError, which lists the differences, where the name is another request's.
    """
    spec = same_creation.label_request(spec)
    node = spec.node
    own = dict(with_switch(node.metadata, node.labels, api.project, node.zone, spec.name))
    spec = replace(spec, node=replace(node, metadata=with_key(own, access) or own))
    about = api.about_creation(QR, spec.name, node, spec.node_count or 1)
    wanted = QuotaDemand(node.accelerator_type, node.zone, node.provisioning)
    try:
        with name_holders(api, wanted):
            operation = api.create_queued_resource(spec, request_id=request_id)
    except ConflictError as error:
        return _adopt_request(api, spec, error)

    def accepted(patience: Patience) -> QueuedResource:
        with name_holders(api, wanted):
            return _wait_for_request(api, operation, patience, about, node.provisioning)

    return PendingRequest(accepted, was_there=False)


def _adopt_request(api: TpuApi, spec: QueuedResourceSpec, refusal: ConflictError) -> PendingRequest:
    """What waits for a request that an earlier create of the same specification has filed."""
    zone, name = spec.node.zone, spec.name
    try:
        found = api.describe_queued_resource(zone, name)
        node = api.requested_node(zone, name)
    except NotFoundError:
        raise refusal from None  # it is the name of the node that is taken
    same_creation.check_same_request(spec, found, node)

    def accepted(patience: Patience) -> QueuedResource:
        newest = found
        for newest in wait.watch_states(
            lambda: api.get_queued_resource(zone, name),
            frozenset(QueuedResourceState) - {QueuedResourceState.CREATING},
            patience,
            f"queued resource {name!r}",
        ):
            _raise_if_ended(newest, api.project)
        return replace(newest, provisioning=found.provisioning)

    return PendingRequest(accepted, was_there=True)


def reset(api: TpuApi, request: QueuedResource) -> Callable[[Patience], QueuedResource]:
    """Request new nodes for a suspended request; returns what waits until that has begun."""
    zone, name = request.zone, request.name
    operation = api.reset_queued_resource(zone, name)
    about = CallSubject(f"reset queued resource {name!r}", QR, name, zone)
    tier = request.provisioning
    return lambda patience: _wait_for_request(api, operation, patience, about, tier)


def until_active(
    api: TpuApi, request: QueuedResource, patience: Patience
) -> Iterator[QueuedResource]:
    """Yield the request at every change of state until it is ACTIVE; raises if it cannot be."""
    zone, settled = request.zone, ENDED_STATES | {QueuedResourceState.ACTIVE}
    wanted = QuotaDemand(request.accelerator_type, zone, request.provisioning)
    for newest in wait.watch_states(
        lambda: api.get_queued_resource(zone, request.name),
        settled,
        patience,
        f"queued resource {request.name!r}",
    ):
        yield replace(newest, provisioning=request.provisioning)  # v2 does not tell every tier
        with name_holders(api, wanted):
            _raise_if_ended(newest, api.project)


def require_deletable(request: QueuedResource, *, force: bool) -> None:
    """Raises PreconditionError for an ACTIVE request without `force`: its nodes go with it."""
    if request.state == QueuedResourceState.ACTIVE and not force:
        nodes = "its node" if request.node_count == 1 else f"its {request.node_count} nodes"
        raise PreconditionError(
            f"queued resource {request.name!r} is ACTIVE: {nodes} would be deleted too",
            hint=f"run: tpuctl qr delete {request.name} --force",
        )


def existing_nodes(api: TpuApi, request: QueuedResource) -> tuple[list[str], list[Node]]:
    """The names of the request's nodes that exist now, and the nodes themselves.

    Where its zone is silent, the names are those of all its nodes.
    """
    nodes, unreachable = api.read_nodes(request.zone)
    mine = [node for node in nodes if node.name in request.node_names]
    existing = {node.name for node in mine}
    return [name for name in request.node_names if unreachable or name in existing], mine


def delete(api: TpuApi, request: QueuedResource) -> Callable[[Patience], None]:
    """Request the deletion of it and its nodes, unless it goes on already.

    Returns what waits until it is done.
    """
    zone, name = request.zone, request.name
    if request.state == QueuedResourceState.DELETING:
        subject = f"the deletion of queued resource {name!r}"
        return lambda patience: wait.wait_until_gone(
            lambda: api.get_queued_resource(zone, name), patience, subject
        )
    operation = api.delete_queued_resource(request.zone, request.name, force=True)
    about = CallSubject(f"delete queued resource {request.name!r}", QR, request.name, request.zone)
    return lambda patience: wait.wait_for_operation(api, operation, patience, about=about)


def _wait_for_request(
    api: TpuApi, operation: Operation, patience: Patience, about: CallSubject, tier: str
) -> QueuedResource:
    """Wait for an operation; returns the request with the tier that was asked for."""
    wait.wait_for_operation(api, operation, patience, about=about)
    filed = api.get_queued_resource(about.zone, about.name)
    return replace(filed, provisioning=tier)  # v2 does not tell every tier


def _raise_if_ended(request: QueuedResource, project: str) -> None:
    hint = f"run: tpuctl qr delete {request.name} --zone {request.zone}"
    if request.state == QueuedResourceState.SUSPENDED:
        why = SUSPENDED_BY.get(request.initiator, "")
        raise PreemptedError(f"queued resource {request.name!r} is SUSPENDED{why}", hint=hint)
    if request.state == QueuedResourceState.FAILED:
        raise _why_failed(request, project, hint)


def _why_failed(request: QueuedResource, project: str, hint: str) -> TpuctlError:
    """The error of a FAILED request; its hint begins with the deletion, which frees quota."""
    subject = f"queued resource {request.name!r} FAILED"
    if not request.failure:
        return CapacityError(f"{subject}: no reason given", hint=hint)
    about = CallSubject(
        subject,
        QR,
        request.name,
        request.zone,
        project,
        request.accelerator_type,
        slices=request.node_count,
    )
    error = error_for(Status(request.failure_code, request.failure), about)
    if isinstance(error, TransientError):  # but nothing tries it again
        ran_out = request.valid_until_s is not None
        error = CapacityError(str(error)) if ran_out else PreconditionError(str(error))
        error.hint = other_zones_hint(about) if ran_out else None
    error.hint = f"{hint}; then {error.hint}" if error.hint else hint
    return error
