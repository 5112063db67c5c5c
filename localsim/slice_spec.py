"""A node of the cloud in the words of the workers."""

from localsim.cloud.cloud import Cloud
from localsim.cloud.nodes import Maintenance, Node, ServiceAccount
from localsim.workers.spec import GuestAttribute, SliceSpec, UpcomingMaintenance


def slice_spec(node: Node, cloud: Cloud) -> SliceSpec:
    """What the workers need to know of a node."""
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
        external_addresses=node.external_addresses,
        service_account=account.email,
        scopes=account.scopes,
        maintenance=_upcoming(node.maintenance) if node.maintenance else None,
        guest_attributes=tuple(
            tuple(GuestAttribute(each.namespace, each.key, each.value) for each in worker)
            for worker in node.told
        ),
    )


def _upcoming(maintenance: Maintenance) -> UpcomingMaintenance:
    return UpcomingMaintenance(
        type=maintenance.type,
        can_reschedule=maintenance.can_reschedule,
        window_start_s=maintenance.window_start_s,
        window_end_s=maintenance.window_end_s,
        latest_window_start_s=maintenance.latest_window_start_s,
        status=maintenance.status,
    )
