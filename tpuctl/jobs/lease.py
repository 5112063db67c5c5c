"""Who looks after which job: one heartbeat per supervisor, one lease per unfinished job.

    tpuctl/supervisors/<holder>     written every 5 s by a live supervisor
    tpuctl/leases/<job-id>          holder and fence; written when the job changes hands

A holder is dead when its heartbeat is gone, or has had the same generation for 30 s of the
watcher's own monotonic time: clocks of different machines are never compared. The fence goes up
with every change of hands; the lease is deleted when the job is settled.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from tpuctl.errors import DamagedStateError, NotFoundError, PreconditionError
from tpuctl.store import Entry, Store

HEARTBEATS = "tpuctl/supervisors/"
LEASES = "tpuctl/leases/"
SCHEMA = 1
RENEW_S = 5.0
DEAD_AFTER_S = 30.0


@dataclass(frozen=True, slots=True)
class Lease:
    """A job in the hands of a holder; an empty holder is nobody."""

    job_id: str
    holder: str
    fence: int
    owner: str
    generation: int = 0


def offer(store: Store, job_id: str, owner: str) -> Lease:
    """A new lease that nobody holds: written before the record, so that no job is overlooked."""
    lease = Lease(job_id, "", 0, owner)
    entry = store.put_if_absent(LEASES + job_id, _encode(lease))
    return Lease(job_id, "", 0, owner, entry.generation)


def take(store: Store, lease: Lease, holder: str) -> Lease | None:
    """Take over a lease as it was seen; None when somebody was faster."""
    taken = Lease(lease.job_id, holder, lease.fence + 1, lease.owner)
    try:
        entry = store.put_if_generation(LEASES + lease.job_id, _encode(taken), lease.generation)
    except PreconditionError:
        return None
    return Lease(taken.job_id, holder, taken.fence, taken.owner, entry.generation)


def drop(store: Store, job_id: str) -> None:
    """The job is settled: nobody needs to look after it."""
    store.delete(LEASES + job_id)


def withdraw(store: Store, lease: Lease) -> bool:
    """Remove a lease that has no job; False when somebody was faster."""
    try:
        return store.delete(LEASES + lease.job_id, generation=lease.generation)
    except PreconditionError:
        return False


def renew_offer(store: Store, job_id: str, owner: str) -> None:
    """See that a job has a lease: a slow submitter's may have been withdrawn."""
    if store.head(LEASES + job_id) is None:
        with suppress(PreconditionError):
            offer(store, job_id, owner)


def leases(
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
            lease = _readable(store, entry, on_unreadable)
        if lease is not None:
            found.append(lease)
    return found


def beat(store: Store, holder: str, body: Mapping[str, object], generation: int) -> int:
    """Renew a heartbeat; returns its new generation. Raises PreconditionError if it is not ours."""
    data = json.dumps(dict(body)).encode()
    return store.put_if_generation(HEARTBEATS + holder, data, generation).generation


def leave(store: Store, holder: str) -> None:
    """A supervisor that ends in order lets go of its jobs at once."""
    store.delete(HEARTBEATS + holder)


@dataclass(slots=True)
class Watcher:
    """Tells dead holders from live ones by this machine's monotonic time."""

    monotonic: Callable[[], float]
    dead_seats: frozenset[str] = frozenset()
    """Seats known to be empty: this machine holds the lock that their supervisors held."""
    seen: dict[str, tuple[int, float]] = field(default_factory=dict)

    def look(self, store: Store) -> None:
        """Note the generation of every heartbeat."""
        now = self.monotonic()
        entries = {entry.key.removeprefix(HEARTBEATS): entry for entry in store.list(HEARTBEATS)}
        self.seen = {
            holder: self.seen[holder]
            if holder in self.seen and self.seen[holder][0] == entry.generation
            else (entry.generation, now)
            for holder, entry in entries.items()
        }

    def is_dead(self, holder: str) -> bool:
        """Nobody, gone, silent for too long, or known to have left its seat."""
        if not holder or holder not in self.seen or seat_of(holder) in self.dead_seats:
            return True
        return self.monotonic() - self.seen[holder][1] >= DEAD_AFTER_S


def silent(store: Store, seat: str | None) -> list[str]:
    """Jobs that nobody looks after, by one look at the service's own times.

    A heartbeat far behind the newest thing that was written is old; `seat` is known to be empty.
    """
    entries = list(store.list(LEASES))
    beats = {entry.key.removeprefix(HEARTBEATS): entry for entry in store.list(HEARTBEATS)}
    newest_s = max((entry.updated_s for entry in [*entries, *beats.values()]), default=0.0)
    alive = {
        holder
        for holder, entry in beats.items()
        if newest_s - entry.updated_s <= DEAD_AFTER_S and seat_of(holder) != seat
    }
    found = (_readable(store, entry, lambda _error: None) for entry in entries)
    return [lease.job_id for lease in found if lease and lease.holder not in alive]


def seat_of(holder: str) -> str:
    """The part of a holder's name that stays the same on one machine for one context."""
    return holder.partition("-")[0]


def _encode(lease: Lease) -> bytes:
    return json.dumps(
        {"schema": SCHEMA, "holder": lease.holder, "fence": lease.fence, "owner": lease.owner}
    ).encode()


def _readable(
    store: Store, entry: Entry, on_unreadable: Callable[[DamagedStateError], None]
) -> Lease | None:
    try:
        return _read(store, entry.key, entry.generation)
    except DamagedStateError as error:
        on_unreadable(error)
        return None


def _read(store: Store, key: str, generation: int) -> Lease | None:
    try:
        data = store.get_range(key, generation=generation)
    except (NotFoundError, PreconditionError):
        return None  # it changed hands or ended since it was listed
    return _decode(data, key.removeprefix(LEASES), generation)


def _decode(data: bytes, job_id: str, generation: int) -> Lease:
    try:
        document = json.loads(data)
        if document["schema"] > SCHEMA:
            raise DamagedStateError(f"the lease of {job_id!r} was written by a newer tpuctl")
        holder, owner = str(document["holder"]), str(document["owner"])
        return Lease(job_id, holder, int(document["fence"]), owner, generation)
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedStateError(f"the lease of {job_id!r} cannot be read: {error}") from error
