"""Which objects of a bucket jobs that have not ended still need."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tpuctl.jobs.leases import lease
from tpuctl.jobs.record import record_store
from tpuctl.models.job import JobRecord
from tpuctl.operations.audit.sweep import read_job_records
from tpuctl.operations.stage.plan.names import folder_prefix
from tpuctl.store import Store


@dataclass(frozen=True, slots=True)
class ObjectUse:
    """What a job has among some objects."""

    what: str
    job_id: str
    state: str

    @property
    def text(self) -> str:
        """The use in words."""
        return f"the {self.what} of job {self.job_id} ({self.state})"


def find_uses(store: Store, urls: Collection[str]) -> list[ObjectUse]:
    """What jobs that have not ended have among objects, given as gs:// addresses.

    `store` is the bucket with the jobs. Raises TpuctlError when the jobs cannot be read.
    """
    found = read_job_records(lambda: store, ())
    if found.error is not None:
        raise found.error
    return [
        ObjectUse(what, record.job_id, record.state.value)
        for record in found.records.values()
        if not record.is_ended
        for what, places in _places(store.url, record)
        if any(f"{url}/".startswith(places) for url in urls)
    ]


def _places(base: str, record: JobRecord) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield what a job keeps, and with a slash at the end the addresses that it is at or below."""
    job_id = record.job_id
    if record.spec.checkpoints is not None:
        yield "checkpoints", (folder_prefix(record.spec.checkpoints.dir),)
    yield "files", (f"{base}/{record_store.job_directory(job_id)}/",)
    keys = record_store.record_key(job_id), f"{lease.LEASES}{job_id}"
    yield "record", tuple(f"{base}/{key}/" for key in keys)
