"""What people ask about services: the list of them, and one with its replicas and proxies."""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from tpuctl.errors import DamagedStateError, NotFoundError, UsageError
from tpuctl.jobs import client
from tpuctl.jobs.leases import heartbeat, lease
from tpuctl.jobs.leases.lease import service_lease_id
from tpuctl.jobs.local import open_jobs, supervisor_lock
from tpuctl.jobs.record import record_store
from tpuctl.jobs.services import service_store
from tpuctl.jobs.services.service_events import OVER_STATES
from tpuctl.jobs.submit.job_submission import default_owner
from tpuctl.models.inference.service_record import (
    ProxyReport,
    Replica,
    ReplicaState,
    ServiceRecord,
)
from tpuctl.models.job import JobRecord
from tpuctl.operations.jobs.events import JobRuntime, ServicesUnsupervised, Warned
from tpuctl.operations.slices import spending
from tpuctl.store import Store


@dataclass(frozen=True, slots=True)
class ServiceView:
    """A service and the jobs of its replicas by id, as far as the bucket has them."""

    record: ServiceRecord
    jobs: Mapping[str, JobRecord] = field(default_factory=dict)
    proxies: Sequence[ProxyReport] = ()
    supervisor: client.SupervisorInfo | None = None

    @property
    def running(self) -> list[Replica]:
        """The replicas that are not over."""
        return [each for each in self.record.replicas if each.state not in OVER_STATES]

    @property
    def zones(self) -> tuple[str, ...]:
        """Where its replicas run."""
        found = (each.address.zone for each in self.running if each.address is not None)
        return tuple(dict.fromkeys(found))

    @property
    def usd_per_hour(self) -> float | None:
        """USD per hour of the slices that it has now; None where a price is not known."""
        prices = [self.usd_of(each) for each in self.record.replicas]
        return None if None in prices else sum(filter(None, prices))

    def usd_of(self, replica: Replica) -> float | None:
        """USD per hour of the slice that a replica has now; 0 while it has none."""
        job = self.jobs.get(replica.job_id)
        if job is None or not spending.has_slice(job):
            return 0.0
        return spending.usd_per_hour(job)


def list_services(runtime: JobRuntime) -> Generator[Warned, None, list[ServiceView]]:
    """Every service of the context's bucket, the newest first; warns of unreadable records."""
    unreadable: list[DamagedStateError] = []
    store = runtime.store()
    records = service_store.load_all(store, unreadable.append)
    for error in unreadable:
        yield Warned(str(error))
    return [ServiceView(record, _jobs_of(store, record)) for record in records]


def load_service(runtime: JobRuntime, name: str) -> Generator[Warned, None, ServiceView]:
    """One service with its jobs, its proxies and its supervisor. Raises NotFoundError."""
    store = runtime.store()
    record = service_store.load(store, name).record
    supervisor = None
    try:
        supervisor = client.supervisor_of(
            store, runtime.home, runtime.context.name, service_lease_id(name)
        )
    except DamagedStateError as error:
        yield Warned(str(error))
    reports = [each.report for each in service_store.load_reports(store, name)]
    return ServiceView(record, _jobs_of(store, record), reports, supervisor)


def check_supervised(
    runtime: JobRuntime, services: Iterable[ServiceRecord]
) -> Iterator[ServicesUnsupervised]:
    """Yield those of the services that no supervisor looks after, if there are any.

    They are known on this machine from now on, for the line that other commands print.
    """
    ids = {service_lease_id(each.name): each for each in services}
    if not ids:
        return
    home, context = runtime.home, runtime.context.name
    open_jobs.add_jobs(home, context, *ids)
    leases = lease.list_leases(runtime.store(), {})
    here = supervisor_lock.host_id(home, context)
    dead_host = None if supervisor_lock.is_locked(home, context) else here
    unheld = heartbeat.unheld_leases(runtime.store(), leases, dead_host)
    if alone := [ids[held.job_id] for held in unheld if held.job_id in ids]:
        yield ServicesUnsupervised(tuple(alone))


def check_other_owner(runtime: JobRuntime, record: ServiceRecord) -> Iterator[ServicesUnsupervised]:
    """Yield a service of somebody else that nobody looks after: this machine leaves it alone."""
    if record.owner != default_owner():
        yield from check_supervised(runtime, [record])


def choose_replicas(record: ServiceRecord, number: int | None) -> list[Replica]:
    """The replica of that number; without one, those that run, or else the last one that did.

    Raises NotFoundError.
    """
    if number is None:
        running = [each for each in record.replicas if each.state not in OVER_STATES]
        if chosen := running or list(record.replicas[-1:]):
            return chosen
        raise NotFoundError(f"service {record.name!r} has no replica yet")
    found = [each for each in record.replicas if each.number == number]
    if not found:
        known = ", ".join(str(each.number) for each in record.replicas) or "none"
        raise NotFoundError(
            f"service {record.name!r} has no replica {number}", hint=f"it has {known}"
        )
    return found


def choose_replica(record: ServiceRecord, number: int | None) -> Replica:
    """The replica of that number, or the only one that runs.

    Raises NotFoundError, and UsageError where several run.
    """
    found = choose_replicas(record, number)
    if len(found) > 1:
        numbers = ", ".join(str(each.number) for each in found)
        raise UsageError(
            f"service {record.name!r} has {len(found)} replicas",
            hint=f"say which: --replica {numbers}",
        )
    return found[0]


def state_counts(record: ServiceRecord) -> Mapping[str, int]:
    """How many replicas are in each state."""
    return {
        str(state): count
        for state in ReplicaState
        if (count := sum(each.state == state for each in record.replicas))
    }


def _jobs_of(store: Store, record: ServiceRecord) -> dict[str, JobRecord]:
    found = {}
    for replica in record.replicas:
        with suppress(NotFoundError, DamagedStateError):
            found[replica.job_id] = record_store.load(store, replica.job_id).record
    return found
