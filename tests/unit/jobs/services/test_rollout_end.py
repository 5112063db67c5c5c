"""When `service update` may say that a revision is rolled out."""

from dataclasses import replace

from tpuctl.models.inference.serve_spec import ReplicaRange
from tpuctl.models.inference.service_record import Revision, ServiceRecord, ServiceState
from tpuctl.operations.services.submit import is_rolled_out
from unit.jobs.services.service_world import spec_of


def test_an_idle_service_whose_new_revision_wants_replicas_is_not_done_yet():
    idle, wants_two = (
        Revision(number, spec_of(ReplicaRange(least, 3)), 0.0) for number, least in ((1, 0), (2, 2))
    )
    record = ServiceRecord("digits", "me", 0.0, (idle,), state=ServiceState.IDLE)
    assert is_rolled_out(record, 1)
    updated = replace(record, revisions=(idle, wants_two))
    assert not is_rolled_out(updated, 2)
    ready = replace(updated, state=ServiceState.READY, wanted_replicas=2)
    assert is_rolled_out(ready, 2)
