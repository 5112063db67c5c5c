"""Whether a supervisor lives: one heartbeat per supervisor that has jobs in its care.

    tpuctl/supervisors/<holder>     written every 5 s by a live supervisor

A holder is dead when its heartbeat is gone, or was the same for 20 s of the watcher's own monotonic
time: clocks of different machines are never compared. Who takes over deletes the dead heartbeat
first, by its generation: either that fails, because the holder has renewed it, or the holder's next
renewal does, and it lets go of every job. Until it can renew, it does nothing after 15 s.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tpuctl.errors import PreconditionError, TransientError
from tpuctl.jobs.leases import lease as leasing
from tpuctl.jobs.leases.lease import HEARTBEATS, Lease, LeaseLostError
from tpuctl.store import Store

MAX_CLOCK_SKEW_S = 60.0
"""By how much this machine's clock may be ahead of the storage service's."""


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """The times, in seconds, that all supervisors of a bucket keep to."""

    renew_s: float = 5.0
    hold_s: float = 15.0
    """For so long after a renewal its holder may act."""
    dead_after_s: float = 20.0


DEFAULT_TERMS = LeaseTerms()


@dataclass(slots=True)
class Heartbeat:
    """The heartbeat object of this process, under one holder's name."""

    store: Store
    holder: str
    body: Mapping[str, object]
    elapsed: Callable[[], float]
    terms: LeaseTerms = DEFAULT_TERMS
    generation: int = 0
    renewed_s: float | None = None
    """When the last renewal that succeeded was begun."""
    written_s: float = 0.0
    """When the storage service wrote it last, by that service's clock."""
    lost: bool = False
    """Another supervisor has taken the jobs of this holder over."""

    def beat(self) -> None:
        """Renew it. Raises LeaseLostError when it was deleted, TransientError and its kin."""
        began_s = self.elapsed()
        try:
            self._put()
        except PreconditionError:
            self._read_back()
            self._put()
        self.renewed_s = began_s

    def is_fresh(self) -> bool:
        """Whether the last renewal is so recent that nobody can take the holder for dead."""
        held = self.renewed_s is not None and not self.lost
        return held and self.elapsed() - (self.renewed_s or 0.0) < self.terms.hold_s

    def check(self) -> None:
        """Raise LeaseLostError when the heartbeat is lost, TransientError while it is stale."""
        if self.lost:
            raise LeaseLostError
        if not self.is_fresh():
            raise TransientError("nothing is done until the leases are renewed")

    def service_now_s(self) -> float:
        """The time by the storage service's clock, as of the last renewal and a little later."""
        passed_s = 0.0 if self.renewed_s is None else self.elapsed() - self.renewed_s
        return self.written_s + max(0.0, passed_s) if self.written_s else 0.0

    def leave(self) -> None:
        """Delete the heartbeat, so that others take the jobs over at once."""
        if self.generation:
            self.store.delete(HEARTBEATS + self.holder)
        self.generation, self.renewed_s = 0, None

    def _put(self) -> None:
        data = json.dumps(dict(self.body)).encode()
        key = HEARTBEATS + self.holder
        entry = self.store.put_if_generation(key, data, self.generation)
        self.generation, self.written_s = entry.generation, entry.updated_s

    def _read_back(self) -> None:
        """Nobody else writes it: what is there is ours, its reply lost; or it was taken away."""
        entry = self.store.head(HEARTBEATS + self.holder)
        if entry is None:
            self.lost = True
            raise LeaseLostError
        self.generation = entry.generation


@dataclass(slots=True)
class HeartbeatWatcher:
    """Tells dead holders from live ones by this machine's monotonic time."""

    monotonic: Callable[[], float]
    dead_hosts: frozenset[str] = frozenset()
    """Hosts without a supervisor: this process holds the lock that their supervisors held."""
    terms: LeaseTerms = DEFAULT_TERMS
    seen: dict[str, tuple[int, float]] = field(default_factory=dict)
    """The generation of each holder's heartbeat, and since when it is the same."""
    looked_s: float = 0.0

    def look(self, store: Store) -> None:
        """Note the generation of every heartbeat.

        Call it after the leases were listed: a holder has a heartbeat before it has a lease.
        """
        self.looked_s = self.monotonic()
        entries = {entry.key.removeprefix(HEARTBEATS): entry for entry in store.list(HEARTBEATS)}
        now = self.monotonic()
        self.seen = {
            holder: self.seen[holder]
            if holder in self.seen and self.seen[holder][0] == entry.generation
            else (entry.generation, now)
            for holder, entry in entries.items()
        }

    def is_dead(self, holder: str) -> bool:
        """Whether a holder was dead at the last look; nobody (the empty name) is.

        A holder is dead without a heartbeat, with one that has not changed for `dead_after_s`, or
        on a host of `dead_hosts`. A watcher that was stopped itself has seen nobody be silent
        meanwhile.
        """
        if not holder or holder not in self.seen or host_id_of(holder) in self.dead_hosts:
            return True
        return self.looked_s - self.seen[holder][1] >= self.terms.dead_after_s

    def delete_heartbeat(self, store: Store, holder: str) -> bool:
        """Delete a dead holder's heartbeat; False when the holder has renewed it after all."""
        if holder not in self.seen:
            return True
        try:
            store.delete(HEARTBEATS + holder, generation=self.seen[holder][0])
        except PreconditionError:
            return False
        return True


def unsupervised_job_ids(store: Store, dead_host: str | None) -> list[str]:
    """Ids of the jobs that nobody looks after, by one look; no supervisor runs on `dead_host`."""
    leases = leasing.list_leases(store, {})
    return [lease.job_id for lease in unheld_leases(store, leases, dead_host)]


def unheld_leases(store: Store, leases: Iterable[Lease], dead_host: str | None) -> list[Lease]:
    """The leases that no live supervisor holds, by the storage service's own times.

    A heartbeat far behind the newest one, or far behind this machine's clock, is old.
    """
    beats = {entry.key.removeprefix(HEARTBEATS): entry for entry in store.list(HEARTBEATS)}
    newest_s = max([time.time() - MAX_CLOCK_SKEW_S, *(entry.updated_s for entry in beats.values())])
    alive = {
        holder
        for holder, entry in beats.items()
        if newest_s - entry.updated_s <= DEFAULT_TERMS.dead_after_s
        and host_id_of(holder) != dead_host
    }
    return [lease for lease in leases if lease.holder not in alive]


def beat_time_s(store: Store, holder: str) -> float | None:
    """When a holder last beat, by the storage service's own clock; None without a heartbeat."""
    entry = store.head(HEARTBEATS + holder) if holder else None
    return entry.updated_s if entry else None


def host_id_of(holder: str) -> str:
    """The part of a holder's name that stays the same on one machine for one context."""
    return holder.partition("-")[0]
