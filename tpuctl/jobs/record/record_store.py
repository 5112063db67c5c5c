"""A job's record in the bucket, schema 4: every write names the generation it replaces."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace

from tpuctl.errors import DamagedStateError, NotFoundError, PreconditionError
from tpuctl.jobs.record import decoding
from tpuctl.jobs.record.decoding import MalformedError
from tpuctl.models.job import JobRecord
from tpuctl.store import Entry, Store

SCHEMA = 4
RECORDS = "tpuctl/records/"
FILES = "tpuctl/jobs/"
JOB_FILES = ("workdir.tar.gz", "logs/", "status/", "stacks/", "metrics/")
"""What tpuctl keeps in a job's directory; what else may lie there is somebody's own."""
CHANGE_TRIES = 10


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record as it was read or written, and the generation it has."""

    record: JobRecord
    generation: int


def job_directory(job_id: str) -> str:
    """Where a job's workdir and logs lie: apart from the records, so that these are listed fast."""
    return f"{FILES}{job_id}"


def record_key(job_id: str) -> str:
    """The name of the object that holds a job's record."""
    return f"{RECORDS}{job_id}"


def workdir_key(job_id: str) -> str:
    """The name of the object with the submitted working directory."""
    return f"{job_directory(job_id)}/workdir.tar.gz"


def workdir_key_of(record: JobRecord) -> str | None:
    """The name of the object with a job's working directory; None without one."""
    if record.workdir_sha256 is None:
        return None
    return record.workdir_key or workdir_key(record.job_id)


def create(store: Store, record: JobRecord) -> StoredRecord:
    """Write a new record; raises PreconditionError when the id is taken."""
    entry = store.put_if_absent(record_key(record.job_id), encode(record))
    return StoredRecord(record, entry.generation)


def save(store: Store, record: JobRecord, generation: int) -> StoredRecord:
    """Replace the record that had that generation; raises PreconditionError when it changed."""
    entry = store.put_if_generation(record_key(record.job_id), encode(record), generation)
    return StoredRecord(record, entry.generation)


def load(store: Store, job_id: str) -> StoredRecord:
    """Read a record; raises NotFoundError, DamagedStateError."""
    while True:
        entry = store.head(record_key(job_id))
        if entry is None:
            raise NotFoundError(f"job {job_id!r} does not exist", hint="run: tpuctl job list")
        try:
            data = store.get_range(record_key(job_id), generation=entry.generation)
        except (NotFoundError, PreconditionError):
            continue  # replaced between the two calls
        return StoredRecord(decode(data, job_id), entry.generation)


def generation(store: Store, job_id: str) -> int | None:
    """The record's generation now, without reading it."""
    entry = store.head(record_key(job_id))
    return entry.generation if entry else None


def load_all(store: Store, on_unreadable: Callable[[DamagedStateError], None]) -> list[JobRecord]:
    """Every job of the bucket that can be read, the newest first."""
    records = []
    for entry in list(store.list(RECORDS)):
        try:
            records.append(load_listed(store, entry))
        except NotFoundError:
            continue  # removed since it was listed
        except DamagedStateError as error:
            on_unreadable(error)
    return sorted(records, key=lambda record: -record.submitted_s)


def change(store: Store, job_id: str, change_record: Callable[[JobRecord], JobRecord]) -> JobRecord:
    """Write what a function makes of a record, again when somebody else wrote in between.

    A record that it returns as it is, is not written. Raises PreconditionError when the record
    changes all the time.
    """
    for _ in range(CHANGE_TRIES):
        stored = load(store, job_id)
        wanted = change_record(stored.record)
        if wanted is stored.record:
            return wanted
        with suppress(PreconditionError):
            return save(store, wanted, stored.generation).record
    raise PreconditionError(f"job {job_id!r} changes too fast", hint="try again")


def request_cancel(store: Store, job_id: str, now_s: float) -> JobRecord:
    """Write into the record that somebody wants the job's end; an ended job stays as it is."""

    def cancel(record: JobRecord) -> JobRecord:
        is_done = record.is_ended or record.cancel_requested_s is not None
        return record if is_done else replace(record, cancel_requested_s=now_s)

    return change(store, job_id, cancel)


def encode(record: JobRecord) -> bytes:
    """The record as JSON."""
    return json.dumps({"schema": SCHEMA, **asdict(record)}, indent=1).encode()


def decode(data: bytes, job_id: str) -> JobRecord:
    """The record of JSON; raises DamagedStateError."""
    try:
        document = decoding.parse_document(data)
        if decoding.is_newer(document, SCHEMA):
            raise DamagedStateError(
                f"job {job_id!r} was written by a newer tpuctl", hint="upgrade tpuctl"
            )
        found = decoding.decode_dataclass(JobRecord, document)
        if found.job_id != decoding.check_job_id(job_id):
            raise MalformedError(f"it is the record of job {found.job_id[:80]!r}")
    except MalformedError as error:
        raise DamagedStateError(
            f"the record of job {job_id!r} cannot be read: {error}",
            hint="to see whether it has slices, run: tpuctl sweep",
        ) from error
    return found


def load_listed(store: Store, entry: Entry) -> JobRecord:
    """The record of a listed object; raises NotFoundError (removed since), DamagedStateError."""
    job_id = entry.key.removeprefix(RECORDS)
    try:
        data = store.get_range(entry.key, generation=entry.generation)
    except (NotFoundError, PreconditionError):
        return load(store, job_id).record  # replaced since it was listed
    return decode(data, job_id)
