"""What the Cloud TPU API says about a job's slices, and what a job asks of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tpuctl import catalog
from tpuctl.errors import (
    ConflictError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionError,
    TpuctlError,
    UsageError,
)
from tpuctl.jobs.observed import ABSENT, WITHDRAWN, Refusal
from tpuctl.jobs.ports import Outside, Slices
from tpuctl.models.job import Attempt, AttemptState, JobRecord
from tpuctl.models.node import Node, NodeSpec, NodeState, Provisioning
from tpuctl.models.queued_resource import QueuedResource, QueuedResourceSpec, QueuedResourceState

LABEL = "tpuctl-job"
USER = "USER"
VANISHED = (ABSENT, NodeState.DELETING)
REFUSALS = (UsageError, PermissionDeniedError, PreconditionError)
"""Errors that asking again does not cure."""


@dataclass(frozen=True, slots=True)
class Sky:
    """One look at the Cloud TPU API; what could not be asked is missing."""

    requests: Mapping[str, str] = field(default_factory=dict)
    node_state: str | None = None
    node: Node | None = None
    attempt: int = 0
    """The attempt whose node this is."""
    checked_s: float = 0.0
    trouble: str | None = None


def look(tpu: Slices, record: JobRecord, now: Callable[[], float]) -> Sky:
    """Ask for every slice that the record still cares about."""
    began_s = now()
    attempt = record.attempt
    names = {name: _zone(record, name) for name in record.unwanted}
    if attempt and attempt.queued_resource and not record.is_ended:
        names[attempt.queued_resource] = attempt.zone
    troubles: list[str] = []
    requests = {
        name: state
        for name, zone in names.items()
        if (state := _request_state(tpu, zone, name, troubles))
    }
    node_state, node = None, None
    if attempt and not record.is_ended and _may_have_node(attempt, requests):
        node_state, node = _node(tpu, attempt, troubles)
        name = attempt.queued_resource
        if name and node_state in VANISHED:
            # Asked before the node, it may not have told yet why the node is gone.
            requests.pop(name, None)
            if state := _request_state(tpu, attempt.zone, name, troubles):
                requests[name] = state
    return Sky(
        requests=requests,
        node_state=node_state,
        node=node,
        attempt=attempt.number if attempt else 0,
        checked_s=began_s if node_state else 0.0,
        trouble=troubles[0] if troubles else None,
    )


def request_slice(outside: Outside, record: JobRecord, attempt: Attempt) -> Refusal | None:
    """File the attempt's queued resource; returns why it will never be granted, if so.

    Raises TransientError and its kin when asking again may help.
    """
    wanted = record.spec.resources
    runtime_version = wanted.runtime_version or catalog.default_runtime_version(
        record.accelerator_type
    )
    node = NodeSpec(
        name=attempt.node,
        zone=attempt.zone,
        accelerator_type=record.accelerator_type,
        runtime_version=runtime_version,
        provisioning=Provisioning.SPOT if wanted.use_spot else Provisioning.ON_DEMAND,
        labels={LABEL: record.job_id},
        metadata={"ssh-keys": outside.key_line},
    )
    spec = QueuedResourceSpec(attempt.queued_resource or attempt.node, node)
    try:
        outside.tpu.create_queued_resource(spec, request_id=attempt.request_id or "")
    except ConflictError:
        return None  # an earlier try of ours: the name holds the job's own random part
    except REFUSALS as error:
        return Refusal(str(error), error.reason)
    return None


def delete_slice(tpu: Slices, zone: str, name: str) -> None:
    """Delete a queued resource and its node; gone is as good. Raises TransientError and its kin."""
    try:
        tpu.delete_queued_resource(zone, name, force=True)
    except (NotFoundError, PreconditionError):
        return  # gone, or between two states: it is looked at again


def let_us_in(outside: Outside, node: Node) -> None:
    """Put our key into the node's metadata when it is not there."""
    present = node.metadata.get("ssh-keys", "").splitlines()
    if outside.key_line in present or node.state != NodeState.READY:
        return
    lines = "\n".join([*(line for line in present if line.strip()), outside.key_line])
    outside.tpu.update_node(
        node.zone, node.name, {"metadata": {**node.metadata, "ssh-keys": lines}}
    )


def _request_state(tpu: Slices, zone: str, name: str, troubles: list[str]) -> str | None:
    try:
        return _state(tpu.get_queued_resource(zone, name))
    except NotFoundError:
        return ABSENT
    except TpuctlError as error:
        troubles.append(str(error))
        return None


def _state(request: QueuedResource) -> str:
    suspended = (QueuedResourceState.SUSPENDING, QueuedResourceState.SUSPENDED)
    return WITHDRAWN if request.state in suspended and request.initiator == USER else request.state


def _node(tpu: Slices, attempt: Attempt, troubles: list[str]) -> tuple[str | None, Node | None]:
    try:
        node = tpu.get_node(attempt.zone, attempt.node)
    except NotFoundError:
        return ABSENT, None
    except TpuctlError as error:
        troubles.append(str(error))
        return None, None
    return node.state, node


def _may_have_node(attempt: Attempt, requests: Mapping[str, str]) -> bool:
    """A request that is not ACTIVE yet has no node, or one that is still being made."""
    waiting = attempt.state == AttemptState.WAITING
    return not waiting or requests.get(attempt.queued_resource or "") == "ACTIVE"


def _zone(record: JobRecord, name: str) -> str:
    return next(each.zone for each in record.attempts if each.queued_resource == name)
