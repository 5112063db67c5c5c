"""What the workers need to know of a node."""

from base64 import b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256

from localsim.rules.cloud import Cloud
from localsim.rules.model.nodes import Node, ServiceAccount
from localsim.rules.scenario.fault_types import WorkerFault, WorkerFaultKind
from localsim.worker_facts import HostIdentity
from localsim.workers.spec import HostFault, SliceSpec


def slice_spec(node: Node, cloud: Cloud, project_metadata: Mapping[str, str]) -> SliceSpec:
    """The specification of a node's slice."""
    account = node.spec.service_account or ServiceAccount()
    return SliceSpec(
        name=node.name,
        node_id=node.id,
        project=cloud.project,
        project_number=cloud.project_number,
        zone=node.zone,
        accelerator_type=node.accelerator_type,
        runtime_version=node.runtime_version,
        spot=node.spot,
        addresses=node.addresses,
        metadata=node.metadata,
        project_metadata=project_metadata,
        external_addresses=node.external_addresses,
        service_account=account.email,
        scopes=account.scopes,
        maintenance=node.maintenance,
        guest_attributes=node.told,
        multislice=cloud.slice_position(node),
        worker_faults={
            worker: fault_effects_of(faults)
            for worker, faults in cloud.faults_by_worker(node).items()
        },
    )


def fault_effects_of(faults: Iterable[WorkerFault]) -> HostFault:
    """The effects of a worker's faults."""
    factors = {fault.trouble: fault.factor for fault in faults}
    return HostFault(
        hangs=WorkerFaultKind.HANGS in factors,
        killed=WorkerFaultKind.KILLED in factors,
        cut_off=WorkerFaultKind.CUT_OFF in factors,
        disk_full=WorkerFaultKind.DISK_FULL in factors,
        refuses_ssh=WorkerFaultKind.REFUSES_SSH in factors,
        slow=factors.get(WorkerFaultKind.SLOW),
    )


def absent_identities(node: Node) -> tuple[HostIdentity, ...]:
    """Identities for the workers of a node without workers; always the same for a node.

    Host names and keys have the form of real ones.
    """
    return tuple(
        HostIdentity(f"t1v-n-{node.id & 0xFFFFFFFF:08x}-w-{index}", _host_key(node, index))
        for index, _ in enumerate(node.addresses)
    )


def _host_key(node: Node, index: int) -> str:
    """A public key whose private key nobody holds."""
    kind, key = b"ssh-ed25519", sha256(f"{node.id}/{index}".encode()).digest()
    blob = b"".join(len(part).to_bytes(4, "big") + part for part in (kind, key))
    return f"{kind.decode()} {b64encode(blob).decode()}"
