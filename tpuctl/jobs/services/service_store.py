"""What the bucket holds of a service.

    tpuctl/services/<name>                       its record, schema 1
    tpuctl/service-files/<name>/revisions/<n>    the working directory of a revision
    tpuctl/service-files/<name>/proxies/<id>     what a proxy says of its load

Every write of a record names the generation it replaces.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace

from tpuctl.errors import ConflictError, DamagedStateError, NotFoundError, PreconditionError
from tpuctl.jobs.record import decoding
from tpuctl.jobs.record.decoding import MalformedError
from tpuctl.models.inference.service_record import ProxyReport, ServiceRecord
from tpuctl.store import Store

SCHEMA = 1
SERVICES = "tpuctl/services/"
FILES = "tpuctl/service-files/"
CHANGE_TRIES = 10


@dataclass(frozen=True, slots=True)
class StoredService:
    """A service's record as it was read or written, and the generation it has."""

    record: ServiceRecord
    generation: int


@dataclass(frozen=True, slots=True)
class StoredReport:
    """A proxy's report and its generation, by whose changes a watcher knows that it lives."""

    report: ProxyReport
    generation: int


def service_key(name: str) -> str:
    """The name of the object that holds a service's record."""
    return f"{SERVICES}{name}"


def workdir_key(name: str, revision: int) -> str:
    """The name of the object with the working directory of a revision."""
    return f"{FILES}{name}/revisions/{revision}"


def report_prefix(name: str) -> str:
    """What the names of all proxies' reports begin with."""
    return f"{FILES}{name}/proxies/"


def create(store: Store, record: ServiceRecord) -> StoredService:
    """Write the record of a new service; raises ConflictError when the name is taken."""
    try:
        entry = store.put_if_absent(service_key(record.name), encode(record))
    except PreconditionError as error:
        raise _taken_error(record.name) from error
    return StoredService(record, entry.generation)


def refuse_taken(store: Store, name: str) -> None:
    """Raise ConflictError when the name of a service is taken."""
    if generation(store, name) is not None:
        raise _taken_error(name)


def _taken_error(name: str) -> ConflictError:
    return ConflictError(
        f"service {name!r} exists already",
        hint=f"to change it, run: tpuctl service update {name} FILE",
    )


def save(store: Store, record: ServiceRecord, generation: int) -> StoredService:
    """Replace the record that had that generation; raises PreconditionError when it changed."""
    entry = store.put_if_generation(service_key(record.name), encode(record), generation)
    return StoredService(record, entry.generation)


def load(store: Store, name: str) -> StoredService:
    """Read a service's record; raises NotFoundError, DamagedStateError."""
    while True:
        entry = store.head(service_key(name))
        if entry is None:
            raise NotFoundError(f"service {name!r} does not exist", hint="run: tpuctl service list")
        try:
            data = store.get_range(service_key(name), generation=entry.generation)
        except (NotFoundError, PreconditionError):
            continue  # replaced between the two calls
        return StoredService(decode(data, name), entry.generation)


def generation(store: Store, name: str) -> int | None:
    """The generation of a service's record now; None where there is no such service."""
    entry = store.head(service_key(name))
    return entry.generation if entry else None


def load_all(
    store: Store, on_unreadable: Callable[[DamagedStateError], None]
) -> list[ServiceRecord]:
    """Every service of the bucket that can be read, the newest first."""
    records = []
    for entry in list(store.list(SERVICES)):
        try:
            records.append(load(store, entry.key.removeprefix(SERVICES)).record)
        except NotFoundError:
            continue  # removed since it was listed
        except DamagedStateError as error:
            on_unreadable(error)
    return sorted(records, key=lambda record: -record.created_s)


def change(
    store: Store, name: str, change_record: Callable[[ServiceRecord], ServiceRecord]
) -> ServiceRecord:
    """Write what a function makes of a record, again when somebody else wrote in between.

    A record that it returns as it is, is not written. Raises PreconditionError when the record
    changes all the time.
    """
    for _ in range(CHANGE_TRIES):
        stored = load(store, name)
        wanted = change_record(stored.record)
        if wanted is stored.record:
            return wanted
        with suppress(PreconditionError):
            return save(store, wanted, stored.generation).record
    raise PreconditionError(f"service {name!r} changes too fast", hint="try again")


def request_delete(store: Store, name: str, now_s: float) -> ServiceRecord:
    """Write into the record that somebody wants the service's end."""

    def mark(record: ServiceRecord) -> ServiceRecord:
        is_done = record.ended_s is not None or record.delete_requested_s is not None
        return record if is_done else replace(record, delete_requested_s=now_s)

    return change(store, name, mark)


def remove(store: Store, stored: StoredService) -> None:
    """Delete the files of a service, and then its record, unless that was changed.

    Raises PreconditionError when it was.
    """
    name = stored.record.name
    for entry in list(store.list(f"{FILES}{name}/")):
        store.delete(entry.key)
    store.delete(service_key(name), generation=stored.generation)


def save_report(store: Store, name: str, report: ProxyReport, generation: int) -> int:
    """Replace a proxy's report that had that generation, 0 for none; returns the new one."""
    data = json.dumps({"schema": SCHEMA, **asdict(report)}).encode()
    key = f"{report_prefix(name)}{report.proxy_id}"
    return store.put_if_generation(key, data, generation).generation


def delete_report(store: Store, name: str, proxy_id: str, generation: int) -> None:
    """Remove the report of a proxy that ends."""
    store.delete(f"{report_prefix(name)}{proxy_id}", generation=generation)


def load_reports(store: Store, name: str) -> list[StoredReport]:
    """What every proxy of a service says; one that cannot be read is passed over."""
    reports = []
    for entry in list(store.list(report_prefix(name))):
        with suppress(NotFoundError, PreconditionError, MalformedError):
            data = store.get_range(entry.key, generation=entry.generation)
            report = decoding.decode_dataclass(ProxyReport, decoding.parse_document(data))
            reports.append(StoredReport(report, entry.generation))
    return reports


def encode(record: ServiceRecord) -> bytes:
    """The record as JSON."""
    return json.dumps({"schema": SCHEMA, **asdict(record)}, indent=1).encode()


def decode(data: bytes, name: str) -> ServiceRecord:
    """The record of JSON; raises DamagedStateError."""
    try:
        document = decoding.parse_document(data)
        if decoding.is_newer(document, SCHEMA):
            raise DamagedStateError(
                f"service {name!r} was written by a newer tpuctl", hint="upgrade tpuctl"
            )
        found = decoding.decode_dataclass(ServiceRecord, document)
        if found.name != decoding.check_job_id(name):
            raise MalformedError(f"it is that of service {found.name[:80]!r}")
        _check_revisions(found)
    except MalformedError as error:
        raise DamagedStateError(
            f"the record of service {name!r} cannot be read: {error}",
            hint="whether it has slices is shown by: tpuctl sweep",
        ) from error
    return found


def _check_revisions(record: ServiceRecord) -> None:
    """Raise MalformedError unless every replica is of a revision, and every revision an engine."""
    numbers = {revision.number for revision in record.revisions}
    if not numbers:
        raise MalformedError("it has no revision")
    if any(revision.spec.serve is None for revision in record.revisions):
        raise MalformedError("a revision has no engine")
    for replica in record.replicas:
        decoding.check_job_id(replica.job_id)
        if replica.revision not in numbers:
            raise MalformedError(f"replica {replica.number} is of no revision")
