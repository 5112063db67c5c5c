"""Which objects of a bucket jobs and services that have not ended still need."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tpuctl.errors import DamagedStateError
from tpuctl.jobs.leases import lease
from tpuctl.jobs.record import record_store
from tpuctl.jobs.services import service_store
from tpuctl.models.inference.service_record import ServiceRecord
from tpuctl.models.job import JobRecord
from tpuctl.operations.audit.sweep import read_job_records
from tpuctl.operations.stage.plan.names import folder_prefix
from tpuctl.store import Store

Place = tuple[str, tuple[str, ...]]
"""What is kept, and the addresses that it is at or below, with a slash at the end."""


@dataclass(frozen=True, slots=True)
class ObjectUse:
    """What a job or a service has among some objects."""

    what: str
    user: str
    """`job ID` or `service NAME`."""
    state: str

    @property
    def text(self) -> str:
        """The use in words."""
        return f"the {self.what} of {self.user} ({self.state})"


def find_uses(store: Store, urls: Collection[str]) -> list[ObjectUse]:
    """What jobs and services that have not ended have among objects, given as gs:// addresses.

    `store` is the bucket with the jobs. Raises TpuctlError when they cannot be read.
    """
    found = read_job_records(lambda: store, ())
    if found.error is not None:
        raise found.error
    users: list[tuple[str, str, Iterator[Place]]] = [
        (f"job {record.job_id}", record.state, _places(store.url, record))
        for record in found.records.values()
        if not record.is_ended
    ]
    users += [
        (f"service {record.name}", record.state, _service_places(store.url, record))
        for record in service_store.load_all(store, raise_error)
    ]
    return [
        ObjectUse(what, user, state)
        for user, state, kept in users
        for what, places in kept
        if any(f"{url}/".startswith(places) for url in urls)
    ]


def raise_error(error: DamagedStateError) -> None:
    """Raise it: what a record that cannot be read needs is not known."""
    raise error


def _service_places(base: str, record: ServiceRecord) -> Iterator[Place]:
    """The same of a service: what it loads, its files, its record."""
    name = record.name
    checkpoints = {each.spec.serve.checkpoint for each in record.revisions if each.spec.serve}
    urls = [url for url in checkpoints if url and url.startswith("gs://")]
    if urls:
        yield "checkpoint", tuple(map(folder_prefix, urls))
    yield "files", (f"{base}/{service_store.FILES}{name}/",)
    keys = service_store.service_key(name), lease.LEASES + lease.service_lease_id(name)
    yield "record", tuple(f"{base}/{key}/" for key in keys)


def _places(base: str, record: JobRecord) -> Iterator[Place]:
    """Yield what a job keeps, and with a slash at the end the addresses that it is at or below."""
    job_id = record.job_id
    if record.spec.checkpoints is not None:
        yield "checkpoints", (folder_prefix(record.spec.checkpoints.dir),)
    yield "files", (f"{base}/{record_store.job_directory(job_id)}/",)
    keys = record_store.record_key(job_id), f"{lease.LEASES}{job_id}"
    yield "record", tuple(f"{base}/{key}/" for key in keys)
