"""Delete a service: its replicas drain, their slices are deleted, and then its record."""

from collections.abc import Generator

from tpuctl.errors import NotFoundError
from tpuctl.jobs.leases.lease import service_lease_id
from tpuctl.jobs.local import open_jobs
from tpuctl.jobs.services import service_store, service_submission
from tpuctl.models.inference.service_record import ServiceRecord
from tpuctl.operations.jobs import supervision
from tpuctl.operations.jobs.events import JobNotice, JobRuntime, ServiceChanged

POLL_S = 0.5


def delete_service(runtime: JobRuntime, name: str) -> Generator[JobNotice, None, ServiceRecord]:
    """Ask for the end of a service, and see that a supervisor carries it out. NotFoundError."""
    store = runtime.store()
    record = service_submission.delete_service(store, name, runtime.now())
    yield from supervision.start_supervisor(runtime)
    return record


def wait_until_deleted(runtime: JobRuntime, name: str) -> Generator[JobNotice, None, None]:
    """Wait until the slices and the record of a service are gone, and tell what happens."""
    store, shown = runtime.store(), ""
    while True:
        try:
            record = service_store.load(store, name).record
        except NotFoundError:
            open_jobs.remove_job(runtime.home, runtime.context.name, service_lease_id(name))
            return
        if record.why != shown:
            shown = record.why
            yield ServiceChanged(record)
        runtime.sleep(POLL_S)
