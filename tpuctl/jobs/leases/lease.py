"""Who looks after which job or service: one lease for each that is not settled.

    tpuctl/leases/<job-id>          holder and fence; written when the job changes hands
    tpuctl/leases/service/<name>    the same of a service

The fence goes up with every change of hands; the lease is deleted when the job is settled. Whether
a holder still lives is told by its heartbeat: tpuctl.jobs.heartbeat.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from tpuctl.errors import DamagedStateError, NotFoundError, PreconditionError
from tpuctl.jobs.record import decoding
from tpuctl.jobs.record.decoding import MalformedError
from tpuctl.jobs.secrets.job_secrets import SERVICE
from tpuctl.store import Store

LEASES = "tpuctl/leases/"
HEARTBEATS = "tpuctl/supervisors/"
SCHEMA = 1
CHANGE_TRIES = 10
"""How often a change is tried when another writer changes the lease meanwhile."""


class LeaseLostError(Exception):
    """Another supervisor looks after the job now."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease of a job as it was read: holder (empty: nobody), fence, owner, generation."""

    job_id: str
    """Or `service/NAME`, of a service."""
    holder: str
    fence: int
    owner: str
    generation: int = 0

    @property
    def service(self) -> str | None:
        """The name of the service that it is the lease of; None: it is a job's."""
        return self.job_id.removeprefix(SERVICE) if self.job_id.startswith(SERVICE) else None

    def is_same_hold(self, other: "Lease | None") -> bool:
        """Whether the other lease has the same holder and fence: it never changed hands."""
        return other is not None and (other.holder, other.fence) == (self.holder, self.fence)


def service_lease_id(name: str) -> str:
    """The id of a service's lease, which also names its secrets."""
    return f"{SERVICE}{name}"


def offer(store: Store, job_id: str, owner: str) -> Lease:
    """A new lease that nobody holds: written before the record, so that no job is overlooked."""
    return _put(store, Lease(job_id, "", 0, owner))


def take(store: Store, lease: Lease, holder: str) -> Lease | None:
    """Take over a lease as it was seen; None when somebody was faster."""
    try:
        return _put(store, replace(lease, holder=holder, fence=lease.fence + 1))
    except PreconditionError:
        return None


def load_lease(store: Store, job_id: str) -> Lease | None:
    """The lease as it is now; None when there is none. Raises DamagedStateError."""
    while True:
        entry = store.head(LEASES + job_id)
        if entry is None:
            return None
        if found := _read(store, entry.key, entry.generation):
            return found


def drop(store: Store, lease: Lease) -> None:
    """Delete the lease of a settled job, unless it is in other hands."""
    key = LEASES + lease.job_id
    _change(store, lease, lambda found: store.delete(key, generation=found.generation))


def release(store: Store, lease: Lease) -> None:
    """Give a lease up for others to take."""
    _change(store, lease, lambda found: _put(store, replace(found, holder="")))


def notify_holder(store: Store, job_id: str) -> None:
    """Write the lease again as it is, so that its holder reads the job's record at once."""
    found = load_lease(store, job_id)
    if found is not None:
        with suppress(PreconditionError):  # it has just changed hands: the record is read anyway
            _put(store, found)


def reoffer(store: Store, job_id: str, owner: str, fence: int) -> None:
    """Give the lease of a job that begins again to nobody, with at least that fence.

    Raises PreconditionError when it changes all the time.
    """
    for _ in range(CHANGE_TRIES):
        found = load_lease(store, job_id) or Lease(job_id, "", 0, owner)
        wanted = replace(found, holder="", fence=max(fence, found.fence))
        if wanted == found and found.generation:
            return
        with suppress(PreconditionError):
            _put(store, wanted)
            return
    raise PreconditionError(f"the lease of {job_id!r} changes too fast", hint="try again")


def withdraw(store: Store, lease: Lease) -> bool:
    """Remove a lease that has no job; False when somebody was faster."""
    try:
        return store.delete(LEASES + lease.job_id, generation=lease.generation)
    except PreconditionError:
        return False


def renew_offer(store: Store, job_id: str, owner: str) -> None:
    """Write the lease of a job that has none: a slow submitter's may have been withdrawn."""
    if store.head(LEASES + job_id) is None:
        with suppress(PreconditionError):
            offer(store, job_id, owner)


def list_leases(
    store: Store,
    known: Mapping[str, Lease],
    on_unreadable: Callable[[DamagedStateError], None] = lambda _error: None,
) -> list[Lease]:
    """The lease of every job that is not settled; one that is `known` is not read again.

    One that cannot be read is passed over and reported.
    """
    found = []
    for entry in list(store.list(LEASES)):
        lease = known.get(entry.key.removeprefix(LEASES))
        if lease is None or lease.generation != entry.generation:
            try:
                lease = _read(store, entry.key, entry.generation)
            except DamagedStateError as error:
                on_unreadable(error)
                continue
        if lease is not None:
            found.append(lease)
    return found


def _change(store: Store, lease: Lease, change: Callable[[Lease], object]) -> None:
    """Change a lease while it is in the same hands; it may have been rung meanwhile."""
    for _ in range(CHANGE_TRIES):
        found = load_lease(store, lease.job_id)
        if found is None or not lease.is_same_hold(found):
            return
        with suppress(PreconditionError):
            change(found)
            return


def _put(store: Store, lease: Lease) -> Lease:
    """In place of the generation that it says it has."""
    document = {
        "schema": SCHEMA,
        "holder": lease.holder,
        "fence": lease.fence,
        "owner": lease.owner,
    }
    data = json.dumps(document).encode()
    entry = store.put_if_generation(LEASES + lease.job_id, data, lease.generation)
    return replace(lease, generation=entry.generation)


def _read(store: Store, key: str, generation: int) -> Lease | None:
    try:
        data = store.get_range(key, generation=generation)
    except (NotFoundError, PreconditionError):
        return None  # it changed hands or ended since it was listed
    return _decode(data, key.removeprefix(LEASES), generation)


def _decode(data: bytes, job_id: str, generation: int) -> Lease:
    try:
        document = decoding.parse_document(data)
        if decoding.is_newer(document, SCHEMA):
            raise DamagedStateError(f"the lease of {job_id!r} was written by a newer tpuctl")
        decoding.check_job_id(job_id.removeprefix(SERVICE))
        found = decoding.decode_dataclass(Lease, {**document, "job_id": job_id})
    except MalformedError as error:
        raise DamagedStateError(f"the lease of {job_id!r} cannot be read: {error}") from error
    return replace(found, generation=generation)
