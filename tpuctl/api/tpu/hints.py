"""The command to run next, for each kind of refusal."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tpuctl import catalog
from tpuctl.byte_size import names_text
from tpuctl.models.node import LOST_STATES, NodeState
from tpuctl.models.queued_resource import ENDED_STATES, QueuedResourceState

MOST_ZONES = 4
QR, NODE = "qr", "node"
NEXT_VERB: Mapping[str, Mapping[str, str]] = {
    NODE: {
        NodeState.READY: "describe",
        NodeState.STOPPED: "start",
        **dict.fromkeys(LOST_STATES, "delete"),
    },
    QR: {QueuedResourceState.ACTIVE: "delete --force", **dict.fromkeys(ENDED_STATES, "delete")},
}
"""What ends a state; where nothing does, waiting will."""


@dataclass(frozen=True, slots=True)
class CallSubject:
    """The subject of a call: what an explanation of its refusal has to name."""

    subject: str
    """How a message begins: `create node 'n1'`."""
    noun: str = NODE
    name: str = ""
    zone: str = ""
    project: str = ""
    accelerator_type: str = ""
    tier: str = ""
    """The option that asks for the same kind of capacity, with a blank before it."""
    hint: str | None = None
    """What to do where nothing better is known."""
    usage: str | None = None
    """The same, where what was asked is wrong in itself."""
    unknown_hint: str | None = None
    """What to do after a reply that was lost, where that is something else."""
    slices: int = 1
    network: str = ""
    subnetwork: str = ""

    @property
    def in_zone(self) -> str:
        """The option that names the zone, with a blank before it."""
        return f" --zone {self.zone}" if self.zone and self.zone != "-" else ""

    @property
    def of_project(self) -> str:
        """gcloud's option that names the project, with a blank before it."""
        return f" --project={self.project}" if self.project else ""


def other_zones_hint(about: CallSubject) -> str | None:
    """A hint at the other zones that have the type, and at queued resources."""
    if not about.accelerator_type:
        return about.hint
    try:
        offered = catalog.zones_of(about.accelerator_type)
    except catalog.UnknownError:
        return about.hint
    others = [zone for zone in offered if zone != about.zone]
    near = sorted(others, key=lambda zone: zone.split("-")[0] != about.zone.split("-")[0])
    zones = f"{about.accelerator_type} is also in {names_text(near, MOST_ZONES)}"
    wait = f"tpuctl qr create {about.name} -t {about.accelerator_type}{about.tier}{about.in_zone}"
    if about.noun == QR:
        return f"{zones}: repeat it with another --zone" if near else about.hint
    return f"{f'{zones}; or ' if near else ''}wait in line: {wait}"


def grant_command(about: CallSubject, role: str) -> str:
    """The gcloud command by which an owner of the project grants a role."""
    return (
        f"an owner runs: gcloud projects add-iam-policy-binding {about.project or 'PROJECT'} "
        f"--member=user:YOU@EXAMPLE.COM --role={role}"
    )


def permission_hint(about: CallSubject, message: str) -> str:
    """A hint at the role to grant: roles/tpu.viewer to read, roles/tpu.admin to change."""
    looks = re.search(r"tpu\.\w+\.(get|list)\b", message) or about.subject.startswith("list ")
    return grant_command(about, "roles/tpu.viewer" if looks else "roles/tpu.admin")


def reservations_hint(about: CallSubject) -> str:
    """The gcloud command that lists the reservations of the zone."""
    return f"run: gcloud alpha compute tpus reservations list{about.in_zone}{about.of_project}"


def nearest_zones_hint(zone: str) -> str:
    """A hint at the zones whose names are spelled alike."""
    near = catalog.nearest(zone, catalog.zones())
    question = f"did you mean {' or '.join(near)}? " if near else ""
    return f"{question}run: tpuctl catalog zones"


def state_hint(about: CallSubject, state: str) -> str:
    """The command that ends the state in which a node or a request refuses a change."""
    verb = NEXT_VERB[about.noun].get(state, "wait")
    command = f"run: tpuctl {about.noun} {verb} {about.name}{about.in_zone}"
    if about.noun == QR and state == "PROVISIONING":
        return f"{command}; or give it up: tpuctl node delete NODE --node-only{about.in_zone}"
    return command
