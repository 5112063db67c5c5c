"""The workers of a node, as every command on workers reaches them."""

from typing import Annotated

import typer

from tpuctl.api.ssh import os_login
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.errors import PreemptedError, TpuctlError
from tpuctl.models.node import LOST_STATES, Node
from tpuctl.operations.remote import fanout
from tpuctl.operations.remote.fanout import WorkerReach
from tpuctl.operations.slices import lifecycle
from tpuctl.operations.slices.wait import Patience
from tpuctl.operations.stage.plan.endpoints import WorkerEndpoint

Name = Annotated[str, typer.Argument(metavar="NAME", help="The node.")]
DialerOption = Annotated[
    str | None,
    typer.Option(
        "--dialer", metavar="HOW", help="direct, internal, iap, socks5://… or jump://…, as context."
    ),
]
CHECK_WORKERS_HINT = "look: tpuctl node workers {} --check"


def accessible_node(runtime: Runtime, name: str) -> Node:
    """A node that commands can run on, and that lets our key in."""
    node = lifecycle.find(runtime.tpu, runtime.context.zone, name)
    lifecycle.require_ready(node)
    if os_login.is_on(node.metadata):
        runtime.access = os_login.with_os_login(runtime.access)
        return node
    lifecycle.admit_key(runtime.tpu, node, runtime.access, Patience(60, runtime.sleep))
    return node


def raise_if_preempted(runtime: Runtime, node: Node) -> None:
    """Raises PreemptedError when workers failed because their node was taken away."""
    try:
        found = lifecycle.find(runtime.tpu, node.zone, node.name)
        if found.state in LOST_STATES:
            lifecycle.require_ready(found)
    except PreemptedError:
        raise
    except TpuctlError:
        return  # what the workers said is the better message


def reach_workers(runtime: Runtime, place: WorkerEndpoint) -> WorkerReach:
    """The workers that were named, and the way to them."""
    node = accessible_node(runtime, place.node)
    chosen = fanout.select_workers(node, place.workers)
    return WorkerReach(runtime.tpu, runtime.access, node, chosen)
