"""`tpuctl node ...`: slices themselves."""

import uuid
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tpuctl.cli.shell import slice_options as slices
from tpuctl.cli.shell.options import NodeName, Noun, NoWait, OverBudget, Timeout, Yes
from tpuctl.cli.shell.parsing import pairs
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.list_verb import ListVerb
from tpuctl.cli.shell.tables.listing import declare_keys
from tpuctl.cli.shell.tables.values import Usd
from tpuctl.models.slice_options import check_labels

if TYPE_CHECKING:
    from tpuctl.models.node import Node

app = Noun("Create, use and delete nodes (TPU slices).")


@app.verb("create", slices.SliceVerb)
def create(
    runtime: Runtime,
    name: NodeName,
    no_wait: NoWait = False,
    timeout: Timeout = None,
) -> None:
    """Create a node and wait until it is READY."""
    from tpuctl.cli.node.details import NODES
    from tpuctl.cli.shell.progress_display import show_spinner
    from tpuctl.operations.slices import capacity_notes, lifecycle, quota_advice
    from tpuctl.operations.slices.wait import Patience

    spec = slices.slice_spec(runtime, name)
    slices.require_within_limit(runtime, spec, f"node {name!r}", own_names=(name,))
    asked_s, request_id = runtime.now(), str(uuid.uuid4())
    noted = partial(
        capacity_notes.note_refusal, runtime.note_capacity, spec, 1, request_id, runtime.now
    )
    quota_advice.require_addresses(runtime.tpu, runtime.addresses, spec)
    look = f"tpuctl node describe {name} --zone {spec.zone}"
    with noted(), slices.note_possible_request(runtime, f"node {name!r}", look):
        made = lifecycle.create(runtime.tpu, spec, runtime.access, request_id=request_id)
    slices.print_price(runtime, spec)
    slices.add_interrupt_note(runtime, spec)
    if made.was_there:
        runtime.output.note(
            f"node {name!r} exists already, with the same settings; tpuctl goes on with it"
        )
    if no_wait:
        runtime.output.note(f"node {name!r} is being created: tpuctl node wait {name}")
        return
    with noted(), show_spinner(runtime, f"creating node {name}"):
        node = made.ready(Patience(timeout, runtime.sleep))
    runtime.output.items([node], NODES)
    _note_cost(runtime, [node], is_ours=True)
    if not made.was_there:
        now_s = runtime.now()
        runtime.note_capacity(capacity_notes.grant_of_node(node, now_s - asked_s, now_s))


def _list_keys() -> Iterable[str]:
    from tpuctl.cli.node.details import NODES

    return NODES.keys


@app.verb("list", ListVerb)
@declare_keys(_list_keys)
def list_nodes(runtime: Runtime) -> None:
    """List nodes, with what they cost.

    All zones are listed; --zone chooses one.
    """
    from tpuctl.cli.node.details import NODES
    from tpuctl.operations.slices.flex_start import with_flex_start

    if runtime.has_no_local_state():
        runtime.output.items([], NODES)
        return
    nodes, unreachable = runtime.tpu.list_nodes(runtime.listing_zone)
    if runtime.listing_zone == "-" and not unreachable:
        rows = ((node.name, f"{node.zone} {node.state}", node.worker_count) for node in nodes)
        runtime.remember("node", rows)
    nodes = with_flex_start(runtime.tpu, nodes)
    title = f"nodes of {runtime.context.name}"
    runtime.output.items(sorted(nodes, key=lambda n: (n.zone, n.name)), NODES, title=title)
    for zone in unreachable:
        runtime.output.warn(f"{zone} did not answer: its nodes are not shown")


@app.verb("describe")
def describe(runtime: Runtime, name: NodeName) -> None:
    """Show one node.

    Its workers, its health, announced maintenance, and how its startup script ended.
    """
    from tpuctl.cli.node.details import print_node
    from tpuctl.operations.slices import lifecycle
    from tpuctl.operations.slices.flex_start import with_flex_start

    node = lifecycle.find(runtime.tpu, runtime.context.zone, name, read=runtime.tpu.describe_node)
    (node,) = with_flex_start(runtime.tpu, [node])
    print_node(runtime.output, node, lifecycle.startup_outcomes(runtime.tpu, node))


@app.verb("delete")
def delete(
    runtime: Runtime,
    name: NodeName,
    node_only: Annotated[
        bool, typer.Option("--node-only", help="Keep the queued resource that owns it.")
    ] = False,
    yes: Yes = False,
    no_wait: NoWait = False,
) -> None:
    """Delete a node, and the queued resource that owns it.

    A queued resource without its node is suspended, and a suspended one holds quota.
    """
    from tpuctl.cli.node.details import usd_per_hour
    from tpuctl.operations.slices import lifecycle
    from tpuctl.operations.slices.flex_start import with_flex_start
    from tpuctl.operations.slices.wait import Patience

    planned = lifecycle.plan_deletion(runtime.tpu, runtime.context.zone, name, node_only=node_only)
    owner = f" and queued resource {planned.request!r}" if planned.request else ""
    others = "".join(f" and node {other!r}" for other in planned.others)
    usd = usd_per_hour(*with_flex_start(runtime.tpu, [planned.node]))
    price = Usd(usd.amount * (1 + len(planned.others))) if usd else "no known"
    what = f"node {name!r}{others}{owner} in context {runtime.context.name!r}"
    runtime.confirm(f"Delete {what} ({price} USD/h)?", yes=yes)
    done = lifecycle.delete(runtime.tpu, planned)
    again = f"tpuctl node delete {name} --zone {planned.node.zone}"
    runtime.on_interrupt.append(f"the deletion of {what} goes on; wait for it: {again} --yes")
    if not no_wait:
        done(Patience(sleep=runtime.sleep))
    runtime.output.note(f"{'deleting' if no_wait else 'deleted'} {what}")
    _note_cost(runtime, [planned.node])


@app.verb("start")
def start(
    runtime: Runtime, name: NodeName, no_wait: NoWait = False, over_budget: OverBudget = False
) -> None:
    """Start a stopped node (of one worker)."""
    from tpuctl.operations.slices import lifecycle

    runtime.slice_flags.over_budget = over_budget
    _start_or_stop(runtime, name, lifecycle.start, "starting", no_wait=no_wait)


@app.verb("stop")
def stop(runtime: Runtime, name: NodeName, no_wait: NoWait = False) -> None:
    """Stop a node (of one worker): its disk stays, the price ends."""
    from tpuctl.operations.slices import lifecycle

    _start_or_stop(runtime, name, lifecycle.stop, "stopping", no_wait=no_wait)


@app.verb("update")
def update(
    runtime: Runtime,
    name: NodeName,
    description: Annotated[str | None, typer.Option(metavar="TEXT")] = None,
    labels: Annotated[
        str | None, typer.Option(metavar="K=V,K=V", help="Set labels; `K=` removes one.")
    ] = None,
    metadata: Annotated[
        str | None, typer.Option(metavar="K=V,K=V", help="Set metadata; `K=` removes it.")
    ] = None,
    ttl: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Delete it this long after its creation; '': never."),
    ] = None,
    delete_when_idle: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Delete it when idle for this long; '': never."),
    ] = None,
) -> None:
    """Change description, labels, metadata or lifetime of a node.

    The node must be READY.
    """
    from tpuctl.cli.node.details import NODES
    from tpuctl.operations.slices import lifecycle
    from tpuctl.operations.slices.flex_start import with_flex_start
    from tpuctl.operations.slices.wait import Patience

    node = lifecycle.find(runtime.tpu, runtime.context.zone, name)
    changes: dict[str, Any] = {}
    if description is not None:
        changes["description"] = description
    if (labels, ttl, delete_when_idle) != (None, None, None):
        given = pairs(labels, "--labels") | slices.changed_lifetime(ttl, delete_when_idle)
        changes["labels"] = lifecycle.merge_maps(node.labels, given)
        check_labels(changes["labels"])
    if metadata is not None:
        changes["metadata"] = lifecycle.merge_maps(node.metadata, pairs(metadata, "--metadata"))
    runtime.on_interrupt.append(f"the change of node {name!r} goes on")
    patience = Patience(sleep=runtime.sleep)
    node = lifecycle.update(runtime.tpu, node.zone, name, changes, patience)
    runtime.output.items(with_flex_start(runtime.tpu, [node]), NODES)


@app.verb("wait")
def wait(runtime: Runtime, name: NodeName, timeout: Timeout = None) -> None:
    """Wait until a node is READY."""
    from tpuctl.cli.node.details import NODES
    from tpuctl.cli.shell.progress_display import show_states
    from tpuctl.operations.slices import lifecycle
    from tpuctl.operations.slices.flex_start import with_flex_start
    from tpuctl.operations.slices.wait import Patience

    patience = Patience(timeout, runtime.sleep)
    node = lifecycle.find(runtime.tpu, runtime.context.zone, name)
    (node,) = with_flex_start(runtime.tpu, [node])
    slices.add_interrupt_note(runtime, node)
    states = lifecycle.until_ready(runtime.tpu, runtime.context.zone, name, patience)
    last = show_states(runtime, "node", states)
    runtime.output.items(with_flex_start(runtime.tpu, [last] if last else []), NODES)


def _start_or_stop(runtime: Runtime, name: str, turn: Any, doing: str, *, no_wait: bool) -> None:
    from tpuctl.cli.node.details import NODES
    from tpuctl.cli.shell.progress_display import show_spinner
    from tpuctl.operations.slices import lifecycle
    from tpuctl.operations.slices.wait import Patience

    node = lifecycle.find(runtime.tpu, runtime.context.zone, name)
    if doing == "starting":
        slices.require_within_limit(runtime, node, f"node {name!r}", own_names=(name,))
    done = turn(runtime.tpu, runtime.context.zone, name)
    if doing == "starting":
        slices.add_interrupt_note(runtime, node, end="stop")
    else:
        runtime.on_interrupt.append(f"{doing} node {name!r} goes on")
    if no_wait:
        runtime.output.note(f"{doing} node {name!r}")
    else:
        with show_spinner(runtime, f"{doing} node {name}"):
            node = done(Patience(sleep=runtime.sleep))
        runtime.output.items([node], NODES)
    _note_cost(runtime, [node])


def _note_cost(runtime: Runtime, nodes: "Sequence[Node]", *, is_ours: bool = False) -> None:
    """Note for `tpuctl cost` what the API has told of these nodes."""
    from tpuctl.operations.cost import command_notes

    command_notes.note_changes(
        runtime.tpu, runtime.store, runtime.home, runtime.now(), nodes, is_ours=is_ours
    )


app.verb_in("ssh", "node.ssh:ssh", slices.WorkerVerb)
app.verb_in("exec", "node.exec:execute", slices.WorkerVerb)
app.verb_in("cp", "node.cp:copy", slices.WorkerVerb)
app.verb_in("forward", "node.forward:forward", slices.WorkerVerb)
app.verb_in("workers", "node.workers:workers", slices.WorkerVerb)
app.verb_in("metrics", "node.metrics:metrics", slices.WorkerVerb)
app.verb_in("logs", "node.logs:logs")
app.verb_in("ssh-config", "node.ssh_config:ssh_config", slices.WorkerVerb)
app.verb_in("free", "node.free:free", slices.WorkerVerb)
