"""`tpuctl node workers`: the hosts of a node, one by one."""

from typing import Annotated, Any

import typer

from tpuctl.cli.node.details import SYMPTOM
from tpuctl.cli.shell.options import NodeName
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.values import attributes, values_of
from tpuctl.cli.shell.worker_access import reach_workers
from tpuctl.errors import PartialFailureError, TransientError
from tpuctl.operations.slices import lifecycle
from tpuctl.operations.stage.plan.endpoints import ALL, WorkerEndpoint
from tpuctl.operations.workers import access

COLUMNS: dict[str, Any] = {
    **attributes(worker="worker.worker_id", address="worker.ip_address"),
    **attributes(external_address="worker.external_ip", hostname="hostname"),
    "symptoms": lambda status: [symptom.kind for symptom in status.symptoms],
    **attributes("ssh"),
}
DOCUMENT = {
    **COLUMNS,
    "symptoms": lambda status: [values_of(symptom, SYMPTOM) for symptom in status.symptoms],
}


def workers(
    runtime: Runtime,
    name: NodeName,
    check: Annotated[
        bool, typer.Option("--check", help="Log in to each, and give the reason where that fails.")
    ] = False,
) -> None:
    """List the workers of a node.

    Addresses, host names, and what is wrong with each.

    With --check it fails when a worker does not answer by SSH.
    """
    answers = None
    if check:
        reach = reach_workers(runtime, WorkerEndpoint(name, ALL, ""))
        node, answers = reach.node, access.try_logins(reach)
    else:
        node = lifecycle.find(runtime.tpu, runtime.context.zone, name)
    seen = access.describe_workers(runtime.tpu, node, answers)
    columns = DOCUMENT if runtime.output.is_document else COLUMNS
    runtime.output.items(seen, columns, title=f"workers of {name}")
    if node.health not in ("", "HEALTHY") and not runtime.output.is_document:
        runtime.output.note(f"health of the node: {node.health}: {node.health_description}")
    silent = [status for status in seen if status.ssh not in (None, access.YES)]
    if silent:
        raise _unreachable_error(name, seen, silent)


def _unreachable_error(
    name: str, seen: list[access.WorkerStatus], silent: list[access.WorkerStatus]
) -> Exception:
    hint = f"run: tpuctl node describe {name}"
    if len(seen) == 1:
        return TransientError(f"worker 0: {silent[0].ssh}", hint=hint)
    names = ", ".join(str(status.worker.worker_id) for status in silent)
    return PartialFailureError(
        f"{len(silent)} of {len(seen)} workers do not answer: {names}", hint=hint
    )
