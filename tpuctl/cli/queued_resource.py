"""`tpuctl queued-resource ...` (`qr`): slices that wait for capacity."""

import uuid
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Annotated

import typer

from tpuctl.cli.shell import slice_options as slices
from tpuctl.cli.shell.options import Noun, NoWait, OverBudget, Timeout, Yes, completed_by
from tpuctl.cli.shell.parsing import moment_s, seconds
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.list_verb import ListVerb
from tpuctl.cli.shell.tables.listing import Listing, declare_keys
from tpuctl.cli.shell.tables.values import PointInTime, Usd, attributes, moments
from tpuctl.models.limits.slice_lifetime import lifetime_of
from tpuctl.models.node import NodeSpec
from tpuctl.models.queued_resource import (
    ENDED_STATES,
    QueuedResource,
    QueuedResourceSpec,
    QueuedResourceState,
    Queueing,
)

app = Noun("Request slices that wait for capacity.")

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="The queued resource.", autocompletion=completed_by("request")
    ),
]


def usd_per_hour(request: QueuedResource) -> Usd | None:
    """USD per hour of the nodes, now or once they are READY; None when they never will be."""
    return Usd(0.0) if request.state in ENDED_STATES else _when_active(request)


def _when_active(request: QueuedResource) -> Usd | None:
    return _price(request, request.node_count)


def _price(node: QueuedResource | NodeSpec, count: int) -> Usd | None:
    """USD per hour of so many nodes of that kind, None where no price is known."""
    from tpuctl.operations.slices import cost

    usd = cost.usd_per_hour(node.accelerator_type, node.zone, node.provisioning)
    return None if usd is None else Usd(usd * count)


COLUMNS = {
    **attributes("name", "zone", "accelerator_type", "state", nodes="node_names"),
    **attributes("provisioning"),
    **moments("created"),
    "usd_per_hour": usd_per_hour,
}
REQUESTS = Listing(COLUMNS, least=("provisioning", "nodes", "created", "zone", "type"))
DETAILS = {
    **COLUMNS,
    **attributes("runtime_version", state_initiator="initiator", failure="failure"),
    **attributes("reservation"),
    **moments("valid_after", "valid_until"),
    **attributes("max_run_duration_s"),
    "ttl": lambda request: lifetime_of(request.labels, 0).ttl,
    "delete_when_idle": lambda request: lifetime_of(request.labels, 0).delete_when_idle,
}


@app.verb("create", slices.RequestVerb)
def create(runtime: Runtime, name: Name) -> None:
    """Request slices; return when the request is accepted.

    `tpuctl qr wait` waits until it is ACTIVE.
    """
    from tpuctl.operations.slices import capacity_notes, queued_resources, quota_advice
    from tpuctl.operations.slices.wait import Patience

    spec = _request_spec(runtime, name)
    node, count = spec.node, spec.node_count or 1
    own = (name, *spec.node_names)
    slices.require_within_limit(runtime, node, f"queued resource {name!r}", count, own)
    warning = quota_advice.check_addresses(runtime.tpu, runtime.addresses, spec)
    look = f"tpuctl qr describe {name} --zone {node.zone}"
    request_id = str(uuid.uuid4())
    noted = partial(
        capacity_notes.note_refusal, runtime.note_capacity, node, count, request_id, runtime.now
    )
    with noted(), slices.note_possible_request(runtime, f"queued resource {name!r}", look):
        filed = queued_resources.create(runtime.tpu, spec, runtime.access, request_id=request_id)
    slices.print_price(runtime, node, count)
    if warning:
        runtime.output.warn(warning)
    _add_interrupt_note(runtime, name, node.zone, _price(node, count))
    if filed.was_there:
        there = f"queued resource {name!r} exists already, with the same settings"
        runtime.output.note(f"{there}; tpuctl goes on with it")
    with nullcontext() if filed.was_there else noted():
        accepted = filed.accepted(Patience(sleep=runtime.sleep))
    runtime.output.items([accepted], REQUESTS)


@app.verb("list", ListVerb)
@declare_keys(lambda: REQUESTS.keys)
def list_requests(runtime: Runtime) -> None:
    """List requests, in every zone unless one is named."""
    from tpuctl.operations.slices.flex_start import with_flex_start

    if runtime.has_no_local_state():
        runtime.output.items([], REQUESTS)
        return
    requests, unreachable = runtime.tpu.list_queued_resources(runtime.listing_zone)
    if runtime.listing_zone == "-" and not unreachable:
        rows = ((each.name, f"{each.zone} {each.state}", 0) for each in requests)
        runtime.remember("request", rows)
    requests = with_flex_start(runtime.tpu, requests)
    title = f"queued resources of {runtime.context.name}"
    runtime.output.items(sorted(requests, key=lambda r: (r.zone, r.name)), REQUESTS, title=title)
    for zone in unreachable:
        runtime.output.warn(f"{zone} did not answer: its requests are not shown")


@app.verb("describe")
def describe(runtime: Runtime, name: Name) -> None:
    """Show one request."""
    from tpuctl.operations.slices import queued_resources

    request = queued_resources.find(runtime.tpu, runtime.context.zone, name)
    runtime.output.item(request, DETAILS)


@app.verb("wait")
def wait(runtime: Runtime, name: Name, timeout: Timeout = None) -> None:
    """Wait until a request is ACTIVE: its nodes are READY."""
    from tpuctl.cli.shell.progress_display import show_states
    from tpuctl.operations.slices import capacity_notes, queued_resources
    from tpuctl.operations.slices.wait import Patience

    request = queued_resources.find(runtime.tpu, runtime.context.zone, name)
    _add_interrupt_note(runtime, name, request.zone, usd_per_hour(request))
    patience = Patience(timeout, runtime.sleep)
    states = queued_resources.until_active(runtime.tpu, request, patience)
    states = capacity_notes.note_states(runtime.note_capacity, states, runtime.now)
    last = show_states(runtime, "queued resource", _why_it_waits(runtime, states))
    runtime.output.items([last] if last else [], REQUESTS)


@app.verb("reset")
def reset(runtime: Runtime, name: Name, yes: Yes = False, over_budget: OverBudget = False) -> None:
    """Create the nodes of a request again.

    Use it after a preemption. The disks of the nodes are lost.
    """
    from tpuctl.operations.slices import queued_resources
    from tpuctl.operations.slices.wait import Patience

    request = queued_resources.find(runtime.tpu, runtime.context.zone, name)
    what = (
        f"queued resource {name!r}{_nodes(request.node_names)} in context {runtime.context.name!r}"
    )
    price = _when_active(request)
    runtime.slice_flags.over_budget = over_budget
    own = (name, *request.node_names)
    about = f"queued resource {name!r}"
    slices.require_within_limit(runtime, request, about, request.node_count, own)
    runtime.confirm(
        f"Create {what} again ({price or 'no known'} USD/h)? Its disks are lost.", yes=yes
    )
    accepted = queued_resources.reset(runtime.tpu, request)
    _add_interrupt_note(runtime, name, request.zone, price)
    request = accepted(Patience(sleep=runtime.sleep))
    runtime.output.items([request], REQUESTS)


@app.verb("delete")
def delete(
    runtime: Runtime,
    name: Name,
    force: Annotated[
        bool, typer.Option("--force", help="Also when it is ACTIVE: deletes its nodes first.")
    ] = False,
    yes: Yes = False,
    no_wait: NoWait = False,
) -> None:
    """Delete a request, and its nodes with it."""
    from tpuctl.cli.shell.progress_display import show_spinner
    from tpuctl.operations.cost import command_notes
    from tpuctl.operations.slices import queued_resources
    from tpuctl.operations.slices.wait import Patience

    request = queued_resources.find(runtime.tpu, runtime.context.zone, name)
    queued_resources.require_deletable(request, force=force)
    names, nodes = queued_resources.existing_nodes(runtime.tpu, request)
    what = f"queued resource {name!r}{_nodes(names)} in context {runtime.context.name!r}"
    runtime.confirm(f"Delete {what} ({usd_per_hour(request) or 'no known'} USD/h)?", yes=yes)
    done = queued_resources.delete(runtime.tpu, request)
    again = f"tpuctl qr delete {name} --zone {request.zone} --yes"
    runtime.on_interrupt.append(f"the deletion of {what} goes on; wait for it: {again}")
    if not no_wait:
        with show_spinner(runtime, f"deleting {name}"):
            done(Patience(sleep=runtime.sleep))
    runtime.output.note(f"{'deleting' if no_wait else 'deleted'} {what}")
    now_s = runtime.now()
    command_notes.note_changes(runtime.tpu, runtime.store, runtime.home, now_s, nodes)


def _request_spec(runtime: Runtime, name: str) -> QueuedResourceSpec:
    """The checked request that the options describe. Raises UsageError, LocalIOError."""
    from tpuctl.operations.slices.specs import check_name, check_request

    flags = runtime.slice_flags
    check_name(name)
    limit = flags.max_run_duration
    spec = QueuedResourceSpec(
        name,
        slices.slice_spec(runtime, flags.node_id or flags.node_prefix or name),
        node_count=flags.node_count,
        queueing=_queueing(runtime),
        max_run_duration_s=seconds(limit),
    )
    return check_request(spec, runtime.now())


def _queueing(runtime: Runtime) -> Queueing:
    flags = runtime.slice_flags
    after, until = flags.valid_after_time, flags.valid_until_time
    return Queueing(
        after_duration_s=seconds(flags.valid_after_duration),
        after_s=moment_s(after, "--valid-after-time") if after else None,
        until_duration_s=seconds(flags.valid_until_duration),
        until_s=moment_s(until, "--valid-until-time") if until else None,
    )


def _why_it_waits(runtime: Runtime, states: Iterable[QueuedResource]) -> Iterator[QueuedResource]:
    """Yield the states; after each that waits, print what it waits for."""
    from tpuctl.operations.slices import queued_resources

    for request in states:
        yield request
        after_s = request.valid_after_s
        if after_s is not None and after_s > runtime.now():
            runtime.output.note(f"it may not be granted before {PointInTime(after_s)}")
        elif request.state == QueuedResourceState.WAITING_FOR_RESOURCES:
            hint = queued_resources.other_zones(request)
            others = f"; {hint}" if hint else ""
            runtime.output.note(f"no capacity yet: it waits in line, at no cost{others}")


def _add_interrupt_note(runtime: Runtime, name: str, zone: str, usd: Usd | None) -> None:
    """Say on an interrupt that the request goes on, its price, and what ends it."""
    wait, end = (
        f"tpuctl qr wait {name} --zone {zone}",
        f"tpuctl qr delete {name} --force --zone {zone}",
    )
    price = f" at {usd} USD/h when ACTIVE" if usd else ""
    runtime.on_interrupt.append(
        f"queued resource {name!r} goes on{price}; wait for it: {wait}; end it with: {end}"
    )


def _nodes(names: Iterable[str]) -> str:
    """Nodes by name, as a part of a sentence."""
    return "".join(f" and node {name!r}" for name in names)
