"""What is shown of a node: the columns of a list, and everything that `describe` knows."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from tpuctl.cli.shell.output import Moment, Output, Usd, printable
from tpuctl.models.node import LOST_STATES, ListedNode, Maintenance, Node, NodeState, Symptom
from tpuctl.operations.slices import cost
from tpuctl.operations.slices.startup_script import ScriptOutcome

FREE_STATES = frozenset({NodeState.STOPPED, *LOST_STATES})
"""Not billed."""


@dataclass(frozen=True, slots=True)
class NodeDetails:
    """A node, and the state of each worker's startup script where it is known."""

    node: Node
    outcomes: Sequence[ScriptOutcome]


def usd_per_hour(node: Node | ListedNode) -> Usd | None:
    """USD per hour of the node, now or once it is READY; None in a state that is not billed."""
    if node.state in FREE_STATES:
        return Usd(0.0)
    return _usd(node.accelerator_type, node.zone, node.provisioning)


@cache
def _usd(accelerator_type: str, zone: str, provisioning: str) -> Usd | None:
    usd = cost.usd_per_hour(accelerator_type, zone, provisioning)
    return None if usd is None else Usd(usd)


def maintenance_document(found: Maintenance | None) -> dict[str, Any] | None:
    """Announced maintenance as a JSON object."""
    return asdict(found) if found else None


def symptom_document(found: Symptom) -> dict[str, Any]:
    """A symptom that the service reports of a worker, as a JSON object."""
    return {
        "worker": found.worker_id,
        "kind": found.kind,
        "details": found.details,
        "created": Moment(found.created_s),
    }


def script_document(found: ScriptOutcome) -> dict[str, Any]:
    """The state of a worker's startup script as a JSON object."""
    return {
        "worker": found.worker_id,
        "state": found.state,
        "exit_code": found.exit_code,
        "output": found.output,
    }


COLUMNS = {
    "name": lambda node: node.name,
    "zone": lambda node: node.zone,
    "accelerator_type": lambda node: node.accelerator_type,
    "state": lambda node: node.state,
    "workers": lambda node: node.worker_count,
    "provisioning": lambda node: node.provisioning,
    "created": lambda node: Moment(node.created_s),
    "usd_per_hour": usd_per_hour,
}
DETAILS = {
    **COLUMNS,
    "runtime_version": lambda node: node.runtime_version,
    "health": lambda node: node.health,
    "queued_resource": lambda node: node.queued_resource,
    "addresses": lambda node: [worker.ip_address for worker in node.workers],
    "labels": lambda node: dict(node.labels),
    "description": lambda node: node.description,
    "id": lambda node: str(node.node_id),
    "external_addresses": lambda node: [w.external_ip for w in node.workers if w.external_ip],
    "health_description": lambda node: node.health_description,
    "symptoms": lambda node: list(map(symptom_document, node.symptoms)),
    "upcoming_maintenance": lambda node: maintenance_document(node.maintenance),
    "autocheckpoint": lambda node: node.autocheckpoint,
    "multislice": lambda node: node.is_multislice,
    "network": lambda node: node.network,
    "subnetwork": lambda node: node.subnetwork,
    "service_account": lambda node: node.service_account,
    "scopes": lambda node: list(node.scopes),
    "tags": lambda node: list(node.tags),
    "data_disks": lambda node: [asdict(disk) for disk in node.data_disks],
}


def print_node(output: Output, found: NodeDetails) -> None:
    """Print one node, and below it the last output of each worker's startup script."""
    columns: dict[str, Any] = {
        key: lambda described, get=get: get(described.node) for key, get in DETAILS.items()
    }
    if output.is_document:
        columns["startup_script"] = lambda described: list(map(script_document, described.outcomes))
    output.item(found, columns)
    if output.is_table:
        for each in found.outcomes:
            code = "" if each.exit_code is None else f" with {each.exit_code}"
            output.line(f"startup script of worker {each.worker_id}: {each.state}{code}")
            for line in each.output.splitlines():
                output.line(f"[{each.worker_id}] {printable(line)}")
