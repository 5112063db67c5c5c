"""Nodes come and go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tpuctl.api.ssh.keys import Access, with_key
from tpuctl.api.tpu.hints import NODE, QR, CallSubject
from tpuctl.errors import (
    ConflictError,
    NotFoundError,
    PreconditionError,
    PreemptedError,
    TpuctlError,
    UsageError,
)
from tpuctl.models import startup_script
from tpuctl.models.limits.switch_script import is_switch_alone, with_switch
from tpuctl.models.node import LOST_STATES, Node, NodeSpec, NodeState
from tpuctl.models.operation import Operation
from tpuctl.models.queued_resource import QueuedResource, QueuedResourceState
from tpuctl.models.quota_holders import QuotaDemand
from tpuctl.operations.slices import same_creation, wait
from tpuctl.operations.slices.quota_advice import name_holders
from tpuctl.operations.slices.specs import missing_error
from tpuctl.operations.slices.wait import Patience

if TYPE_CHECKING:
    from tpuctl.api.tpu.tpu import TpuApi

NEXT_STEPS: dict[str, str] = {
    NodeState.STOPPED: "start",
    NodeState.STOPPING: "start",
    **dict.fromkeys(LOST_STATES, "delete"),
}
SETTLED_STATES = frozenset({NodeState.READY, NodeState.STOPPED}) | LOST_STATES


@dataclass(frozen=True, slots=True)
class PendingNode:
    """A node that is being made."""

    ready: Callable[[Patience], Node]
    """Waits until it is READY."""
    was_there: bool
    """An earlier create of the same specification has asked for it."""


@dataclass(frozen=True, slots=True)
class NodeDeletion:
    """What a deletion removes: the node, the queued resource that owns it, its other nodes."""

    node: Node
    request: str | None
    others: tuple[str, ...] = ()
    """The other nodes of that queued resource."""
    is_under_way: bool = False
    """An earlier command has asked for the same."""


def find(
    api: TpuApi, zone: str, name: str, *, read: Callable[[str, str], Node] | None = None
) -> Node:
    """The node of that name. Raises NotFoundError, which names the zone if it is in another."""
    try:
        return (read or api.get_node)(zone, name)
    except NotFoundError:
        nodes, _ = api.list_nodes()
    raise missing_error("node", name, zone, nodes, "tpuctl node list")


def find_anywhere(api: TpuApi, zone: str, name: str) -> Node:
    """The node of that name in the zone, else the only one that any zone has.

    Raises NotFoundError, and UsageError, which names the zones, where several others have it.
    """
    try:
        return api.get_node(zone, name)
    except NotFoundError:
        nodes, _ = api.list_nodes()
    zones = sorted(node.zone for node in nodes if node.name == name)
    if not zones:
        raise missing_error("node", name, zone, nodes, "tpuctl node list")
    if len(zones) > 1:
        raise UsageError(
            f"nodes of the name {name!r} are in {', '.join(zones)}", hint=f"add: --zone {zones[0]}"
        )
    return api.get_node(zones[0], name)


def startup_outcomes(api: TpuApi, node: Node) -> list[startup_script.ScriptOutcome]:
    """The state of each worker's startup script; empty unless the node is READY and reports it."""
    if node.state != NodeState.READY or not startup_script.is_wrapped(node.metadata):
        return []
    path = f"{startup_script.NAMESPACE}/"
    try:
        return startup_script.script_outcomes(api.guest_attributes(node.zone, node.name, path))
    except TpuctlError:  # a policy of the organization may forbid to read them
        unknown = startup_script.UNKNOWN
        return [startup_script.ScriptOutcome(each.worker_id, unknown) for each in node.workers]


def require_startup_outcomes(api: TpuApi, node: Node) -> list[startup_script.ScriptOutcome]:
    """The state of each worker's startup script.

    Raises PreconditionError where the node is not READY, has no script, or a silent one.
    """
    require_ready(node)
    if startup_script.KEY not in node.metadata or is_switch_alone(node.metadata):
        hint = "give one to: tpuctl node create --startup-script FILE"
        raise PreconditionError(f"node {node.name!r} has no startup script", hint=hint)
    if not startup_script.is_wrapped(node.metadata):
        raise PreconditionError(
            f"the startup script of node {node.name!r} reports nothing: tpuctl did not set it",
            hint=f"run: tpuctl node exec {node.name} --command "
            "'sudo journalctl -o cat -u google-startup-scripts.service'",
        )
    return startup_outcomes(api, node)


def create(api: TpuApi, spec: NodeSpec, access: Access, *, request_id: str) -> PendingNode:
    """Request a node that lets our key in; what answers the same create already is adopted.

    Raises ConflictError, which lists the differences, where the name is another node's, and
    PreemptedError where the one that was made already is lost.
    """
    spec = same_creation.label_node(spec)
    own = dict(with_switch(spec.metadata, spec.labels, api.project, spec.zone, spec.name))
    spec = replace(spec, metadata=with_key(own, access) or own)
    wanted = QuotaDemand(spec.accelerator_type, spec.zone, spec.provisioning)
    try:
        with name_holders(api, wanted):
            operation = api.create_node(spec, request_id=request_id)
    except ConflictError:
        return _adopt_node(api, spec)
    about = api.about_creation(NODE, spec.name, spec)

    def ready(patience: Patience) -> Node:
        with name_holders(api, wanted):
            return _wait_for_node(api, operation, patience, about)

    return PendingNode(ready, was_there=False)


def _adopt_node(api: TpuApi, spec: NodeSpec) -> PendingNode:
    """What waits for a node that an earlier create of the same specification has made.

    Raises ConflictError, PreemptedError.
    """
    node = api.describe_node(spec.zone, spec.name)
    same_creation.check_same_node(spec, node)
    if node.state in LOST_STATES:
        raise PreemptedError(
            f"node {node.name!r} exists already, and is {node.state}", hint=_delete_hint(node)
        )

    def ready(patience: Patience) -> Node:
        try:
            *_, last = until_ready(api, spec.zone, spec.name, patience)
        except NotFoundError as error:
            raise PreconditionError(
                f"node {spec.name!r} disappeared during the wait: its creation failed, or "
                "somebody deleted it",
                hint="run the same command again",
            ) from error
        return last

    return PendingNode(ready, was_there=True)


def start(api: TpuApi, zone: str, name: str) -> Callable[[Patience], Node]:
    """Request the start of a stopped node; returns what waits for it."""
    operation = api.start_node(zone, name)
    about = CallSubject(f"start node {name!r}", NODE, name, zone)
    return lambda patience: _wait_for_node(api, operation, patience, about)


def stop(api: TpuApi, zone: str, name: str) -> Callable[[Patience], Node]:
    """Request a stop, which keeps the disk and ends billing; returns what waits for it."""
    operation = api.stop_node(zone, name)
    about = CallSubject(f"stop node {name!r}", NODE, name, zone)
    return lambda patience: _wait_for_node(api, operation, patience, about)


def update(
    api: TpuApi, zone: str, name: str, changes: Mapping[str, Any], patience: Patience
) -> Node:
    """Replace whole fields of a READY node, and wait; raises UsageError without changes."""
    if not changes:
        raise UsageError("nothing to update", hint="give --description, --labels or --metadata")
    operation = api.update_node(zone, name, changes)
    about = CallSubject(f"update node {name!r}", NODE, name, zone)
    return _wait_for_node(api, operation, patience, about)


def merge_maps(old: Mapping[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    """A copy of a map with some keys changed; an empty value removes its key."""
    together = {**old, **changes}
    return {key: value for key, value in together.items() if value or key not in changes}


def plan_deletion(api: TpuApi, zone: str, name: str, *, node_only: bool) -> NodeDeletion:
    """Find out what the deletion of a node removes with it."""
    node = find(api, zone, name)
    if node_only or not node.queued_resource:
        return NodeDeletion(node, None, is_under_way=node.state == NodeState.DELETING)
    request = api.get_queued_resource(zone, node.queued_resource)
    others = tuple(each for each in request.node_names if each != name)
    is_under_way = request.state == QueuedResourceState.DELETING
    return NodeDeletion(node, node.queued_resource, others, is_under_way=is_under_way)


def delete(api: TpuApi, planned: NodeDeletion) -> Callable[[Patience], None]:
    """Request the deletion, unless it goes on already; returns what waits until it is done."""
    zone, name, request = planned.node.zone, planned.node.name, planned.request
    if planned.is_under_way:
        subject = f"the deletion of node {name!r}"

        def read() -> Node | QueuedResource:
            return api.get_queued_resource(zone, request) if request else api.get_node(zone, name)

        return lambda patience: wait.wait_until_gone(read, patience, subject)
    if planned.request:
        operation = api.delete_queued_resource(zone, planned.request, force=True)
    else:
        operation = api.delete_node(zone, name)
    noun, deleted = (QR, planned.request) if planned.request else (NODE, name)
    about = CallSubject(f"delete node {name!r}", noun, deleted, zone)
    return lambda patience: wait.wait_for_operation(api, operation, patience, about=about)


def until_ready(api: TpuApi, zone: str, name: str, patience: Patience) -> Iterator[Node]:
    """Yield the node at every change of state until it is READY; raises if it cannot become so."""
    for node in wait.watch_states(
        lambda: api.get_node(zone, name), SETTLED_STATES, patience, f"node {name!r}"
    ):
        yield node
        if node.state in LOST_STATES:
            raise PreemptedError(f"node {name!r} is {node.state}", hint=_delete_hint(node))
        if node.state == NodeState.STOPPED:
            raise PreconditionError(
                f"node {name!r} is STOPPED", hint=f"run: tpuctl node start {name}"
            )


def require_ready(node: Node) -> Node:
    """The node itself when commands can run on it; raises PreconditionError, PreemptedError."""
    if node.state == NodeState.READY:
        return node
    message = f"node {node.name!r} is {node.state}, not READY"
    if node.state in LOST_STATES:
        raise PreemptedError(message, hint=_delete_hint(node))
    next_step = NEXT_STEPS.get(node.state, "wait")
    raise PreconditionError(
        message, hint=f"run: tpuctl node {next_step} {node.name} --zone {node.zone}"
    )


def _delete_hint(node: Node) -> str:
    return f"run: tpuctl node delete {node.name} --zone {node.zone}; then create it again"


def admit_key(api: TpuApi, node: Node, access: Access, patience: Patience) -> None:
    """Add our key to a node that was created elsewhere, and wait for the change."""
    metadata = with_key(dict(node.metadata), access)
    if metadata is not None:
        operation = api.update_node(node.zone, node.name, {"metadata": metadata})
        wait.wait_for_operation(api, operation, patience, about=f"add our key to {node.name!r}")


def _wait_for_node(
    api: TpuApi, operation: Operation, patience: Patience, about: CallSubject
) -> Node:
    wait.wait_for_operation(api, operation, patience, about=about)
    return api.get_node(about.zone, about.name)
