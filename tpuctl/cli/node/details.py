"""What is shown of a node: the columns of a list, and everything that `describe` knows."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tpuctl.cli.shell.output import Output
from tpuctl.cli.shell.tables.listing import HEADINGS, Listing
from tpuctl.cli.shell.tables.values import (
    PointInTime,
    Usd,
    attributes,
    moment_of,
    moments,
    printable,
    usd_of,
    values_of,
)
from tpuctl.models.limits.slice_lifetime import lifetime_of
from tpuctl.models.node import FREE_STATES, ListedNode, Node
from tpuctl.models.startup_script import ScriptOutcome
from tpuctl.operations.slices import cost


def usd_per_hour(node: Node | ListedNode) -> Usd | None:
    """USD per hour of the node, now or once it is READY; None in a state that is not billed."""
    if node.state in FREE_STATES:
        return Usd(0.0)
    return usd_of(cost.usd_per_hour(node.accelerator_type, node.zone, node.provisioning))


def expires(node: Node | ListedNode) -> PointInTime | None:
    """When the TTL of the node ends; None where it has none."""
    return moment_of(lifetime_of(node.labels, node.created_s).expires_s)


SYMPTOM = {
    **attributes(worker="worker_id", kind="kind", details="details"),
    **moments("created"),
}
"""A symptom that the service reports of a worker, as a JSON object."""
SCRIPT = attributes(worker="worker_id", state="state", exit_code="exit_code", output="output")
"""The state of a worker's startup script as a JSON object."""
COLUMNS = {
    **attributes("name", "zone", "accelerator_type", "state", workers="worker_count"),
    **attributes("provisioning"),
    **moments("created"),
    "usd_per_hour": usd_per_hour,
    "expires": expires,
    "delete_when_idle": lambda node: lifetime_of(node.labels, 0).delete_when_idle,
}
TABLE_COLUMNS = {
    **{HEADINGS.get(key, key): key for key in COLUMNS if key != "delete_when_idle"},
}
NODES: Listing[Any] = Listing(
    COLUMNS,
    TABLE_COLUMNS,
    least=("provisioning", "expires", "workers", "created", "zone", "type"),
)
DETAILS = {
    **COLUMNS,
    **attributes("runtime_version", "health", "queued_resource"),
    "addresses": lambda node: [worker.ip_address for worker in node.workers],
    "labels": lambda node: dict(node.labels),
    **attributes("description"),
    "id": lambda node: str(node.node_id),
    "external_addresses": lambda node: [w.external_ip for w in node.workers if w.external_ip],
    **attributes("health_description"),
    "symptoms": lambda node: [values_of(each, SYMPTOM) for each in node.symptoms],
    "upcoming_maintenance": lambda node: node.maintenance and asdict(node.maintenance),
    **attributes("autocheckpoint", multislice="is_multislice"),
    **attributes("network", "subnetwork", "service_account", "scopes", "tags"),
    "data_disks": lambda node: [asdict(disk) for disk in node.data_disks],
    "boot_disk": lambda node: node.boot_disk and asdict(node.boot_disk),
    **attributes("shielded_secure_boot"),
}


def print_node(output: Output, node: Node, outcomes: Sequence[ScriptOutcome]) -> None:
    """Print one node, and below it the state and the last output of known startup scripts."""
    fields = values_of(node, DETAILS)
    if output.is_document:
        fields["startup_script"] = [values_of(outcome, SCRIPT) for outcome in outcomes]
    output.fields(fields)
    if output.is_table:
        for outcome in outcomes:
            code = "" if outcome.exit_code is None else f" with {outcome.exit_code}"
            output.line(f"startup script of worker {outcome.worker_id}: {outcome.state}{code}")
            for line in outcome.output.splitlines():
                output.line(f"[{outcome.worker_id}] {printable(line)}")
