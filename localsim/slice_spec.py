"""A node of the cloud in the words of the workers."""

from collections.abc import Iterable, Mapping

from localsim.cloud.cloud import Cloud
from localsim.cloud.model.nodes import Maintenance, Node, ServiceAccount
from localsim.cloud.scenario.faults import Trouble, WorkerTrouble
from localsim.cloud.state.slice_places import Place
from localsim.workers.spec import (
    Affliction,
    GuestAttribute,
    Multislice,
    SliceSpec,
    UpcomingMaintenance,
)


def slice_spec(node: Node, cloud: Cloud, project_metadata: Mapping[str, str]) -> SliceSpec:
    """What the workers need to know of a node."""
    account = node.spec.service_account or ServiceAccount()
    place = cloud.slice_place(node)
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
        maintenance=_upcoming(node.maintenance) if node.maintenance else None,
        guest_attributes=tuple(
            tuple(GuestAttribute(each.namespace, each.key, each.value) for each in worker)
            for worker in node.told
        ),
        multislice=_multislice(place) if place else None,
        afflictions={
            worker: affliction(found) for worker, found in cloud.worker_troubles(node).items()
        },
    )


def affliction(troubles: Iterable[WorkerTrouble]) -> Affliction:
    """What a worker suffers from."""
    factors = {each.trouble: each.factor for each in troubles}
    return Affliction(
        hangs=Trouble.HANGS in factors,
        killed=Trouble.KILLED in factors,
        cut_off=Trouble.CUT_OFF in factors,
        disk_full=Trouble.DISK_FULL in factors,
        refuses_ssh=Trouble.REFUSES_SSH in factors,
        slow=factors.get(Trouble.SLOW),
    )


def _multislice(place: Place) -> Multislice:
    return Multislice(place.request, place.slice_id, place.num_slices, place.coordinator)


def _upcoming(maintenance: Maintenance) -> UpcomingMaintenance:
    return UpcomingMaintenance(
        type=maintenance.type,
        can_reschedule=maintenance.can_reschedule,
        window_start_s=maintenance.window_start_s,
        window_end_s=maintenance.window_end_s,
        latest_window_start_s=maintenance.latest_window_start_s,
        status=maintenance.status,
    )
