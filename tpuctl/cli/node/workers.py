"""`tpuctl node workers`: the hosts of a node, one by one."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tpuctl.cli.node.details import symptom_document
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.worker_access import DialerOption, reach_workers
from tpuctl.errors import PartialFailureError, TransientError
from tpuctl.operations.slices import lifecycle
from tpuctl.operations.stage.plan.endpoints import ALL, WorkerEndpoint

if TYPE_CHECKING:
    from tpuctl.operations.workers.reachability import WorkerStatus

COLUMNS: dict[str, Any] = {
    "worker": lambda one: one.worker.worker_id,
    "address": lambda one: one.worker.ip_address,
    "external_address": lambda one: one.worker.external_ip,
    "hostname": lambda one: one.hostname,
    "symptoms": lambda one: [each.kind for each in one.symptoms],
    "ssh": lambda one: one.ssh,
}
DOCUMENT = {**COLUMNS, "symptoms": lambda one: list(map(symptom_document, one.symptoms))}


def workers(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The node.")],
    check: Annotated[
        bool, typer.Option("--check", help="Log in to each, and say why not where that fails.")
    ] = False,
    dialer: DialerOption = None,
) -> None:
    """Show the workers of a node: addresses, host names, what is wrong with each.

    With --check it fails when a worker does not answer by SSH.
    """
    from tpuctl.operations.workers import reachability

    runtime = ctx.ensure_object(Runtime)
    runtime.dialer = dialer
    answers = None
    if check:
        reach = reach_workers(runtime, WorkerEndpoint(name, ALL, ""))
        node, answers = reach.node, reachability.try_logins(reach)
    else:
        node = lifecycle.find(runtime.tpu, runtime.context.zone, name)
    seen = reachability.describe_workers(runtime.tpu, node, answers)
    columns = DOCUMENT if runtime.output.is_document else COLUMNS
    runtime.output.items(seen, columns, title=f"workers of {name}")
    if node.health not in ("", "HEALTHY") and not runtime.output.is_document:
        runtime.output.note(f"health of the node: {node.health}: {node.health_description}")
    silent = [one for one in seen if one.ssh not in (None, reachability.YES)]
    if silent:
        raise _unreachable_error(name, seen, silent)


def _unreachable_error(
    name: str, seen: "list[WorkerStatus]", silent: "list[WorkerStatus]"
) -> Exception:
    hint = f"run: tpuctl node describe {name}"
    if len(seen) == 1:
        return TransientError(f"worker 0: {silent[0].ssh}", hint=hint)
    names = ", ".join(str(one.worker.worker_id) for one in silent)
    return PartialFailureError(
        f"{len(silent)} of {len(seen)} workers do not answer: {names}", hint=hint
    )
