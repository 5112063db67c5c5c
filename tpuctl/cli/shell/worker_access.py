"""The workers of a node, as every command on workers reaches them."""

from tpuctl.cli.shell.runtime import Runtime
from tpuctl.models.node import Node
from tpuctl.operations.remote import fanout
from tpuctl.operations.remote.fanout import WorkerReach
from tpuctl.operations.stage.plan.endpoints import WorkerEndpoint

CHECK_WORKERS_HINT = "run: tpuctl node workers {} --check"


def accessible_node(runtime: Runtime, name: str) -> Node:
    """A READY node that lets this user's key in, in whichever zone it is unless one is named.

    Raises NotFoundError, UsageError where several zones have the name, and PreemptedError.
    """
    from tpuctl.operations.slices import lifecycle
    from tpuctl.operations.workers import access

    find = lifecycle.find if runtime.shared.zone else lifecycle.find_anywhere
    node, runtime.access = access.accessible_node(
        runtime.tpu, runtime.access, runtime.context.zone, name, runtime.sleep, find
    )
    return node


def raise_if_preempted(runtime: Runtime, node: Node) -> None:
    """Raises PreemptedError when workers failed because their node was taken away."""
    from tpuctl.operations.workers import access

    access.raise_if_preempted(runtime.tpu, node)


def reach_workers(runtime: Runtime, place: WorkerEndpoint) -> WorkerReach:
    """The named workers of a node, with the clients to reach them."""
    node = accessible_node(runtime, place.node)
    chosen = fanout.select_workers(node, place.workers)
    return WorkerReach(runtime.tpu, runtime.access, node, chosen)
