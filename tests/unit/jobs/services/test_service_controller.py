"""The controller of one service, turn by turn: what it writes, submits, cancels and removes."""

import asyncio
import json
import socket
from dataclasses import dataclass, field, replace

import pytest

from tpuctl.errors import (
    CapacityError,
    ConflictError,
    DamagedStateError,
    PreconditionError,
    TransientError,
)
from tpuctl.jobs import client
from tpuctl.jobs.interfaces import Backends, Clocks
from tpuctl.jobs.leases import lease as leasing
from tpuctl.jobs.leases.lease import LeaseLostError
from tpuctl.jobs.record import record_store
from tpuctl.jobs.secrets.job_secrets import SecretCache
from tpuctl.jobs.services import proxy_watcher, readiness, service_store, service_submission
from tpuctl.jobs.services.proxy_watcher import ProxyWatcher
from tpuctl.jobs.services.service_controller import LOOK_S, ServiceController
from tpuctl.jobs.services.service_writer import ServiceWriter
from tpuctl.jobs.submit import job_submission
from tpuctl.jobs.submit.job_submission import Submitter
from tpuctl.models.inference.serve_spec import ReplicaRange
from tpuctl.models.inference.service_record import ProxyReport, ServiceRecord
from tpuctl.models.job import Attempt, AttemptState, JobState, Phase, WorkerReport
from tpuctl.models.node import Node, Worker
from tpuctl.store import Store, open_store
from unit.jobs.services.service_world import spec_of

ZONE = "us-west4-a"
SUBMITTER = Submitter("me@laptop", "laptop")


def refuse_shell(*_):
    raise TransientError("nobody logs in here")


@dataclass
class Nodes:
    """The part of the Cloud TPU API that a service asks."""

    def get_node(self, zone, name):
        worker = Worker(0, "10.0.0.7")
        return Node(name, zone, 1, "v5litepod-4", "v2", "READY", "spot", 0.0, workers=(worker,))


@dataclass
class Rig:
    """A service in a bucket that is a directory, and the controller that holds its lease."""

    store: Store
    backends: Backends
    now: list[float]
    clocks: Clocks
    controller: ServiceController
    said: list[str]
    dials: list[str] = field(default_factory=list)
    ready: bool = True

    @property
    def record(self) -> ServiceRecord:
        return service_store.load(self.store, "digits").record

    def turns(self, count: int = 1) -> None:
        async def take() -> None:
            for _ in range(count):
                self.now[0] += LOOK_S
                await self.controller.take_turn()
                engines = self.controller.engines.engines.values()
                probes = [each.probe for each in engines if each.probe]
                await asyncio.gather(*[each for each in probes if not each.done()])

        asyncio.run(take())

    def jobs(self) -> list:
        return record_store.load_all(self.store, lambda error: pytest.fail(str(error)))

    def run_job(self, number: int = 1, **report) -> None:
        """Its program runs, as a supervisor of jobs would have it."""
        replica = next(each for each in self.record.replicas if each.number == number)
        attempt = Attempt(1, ZONE, f"{replica.job_id}-a1", AttemptState.RUNNING, owned=True,
                          started_s=self.now[0], worker_count=1,
                          workers=(WorkerReport(0, Phase.RUNNING, **report),))  # fmt: skip
        record_store.change(
            self.store, replica.job_id,
            lambda job: replace(job, state=JobState.RUNNING, attempts=(attempt,)),
        )  # fmt: skip

    def settle_job(self, job_id: str) -> None:
        record_store.change(
            self.store, job_id, lambda job: replace(job, state=JobState.CANCELLED, attempts=())
        )


def make_rig(tmp_path, monkeypatch, limits: ReplicaRange) -> Rig:
    store, now, said = open_store(str(tmp_path / "bucket")), [1000.0], []

    async def dial(node, worker, port):
        raise AssertionError("the probe is replaced")

    backends = Backends(
        context="here", zone=ZONE, bucket="b", storage_endpoint="", store=store, tpu=Nodes(),
        open_shell=refuse_shell, key_line="", open_store=refuse_shell, dial_port=dial,
    )  # fmt: skip
    clocks = Clocks(lambda: now[0], lambda: now[0], asyncio.sleep)
    draft = service_submission.draft_revision(spec_of(limits), 1, backends, SUBMITTER, now[0])
    service_submission.create_service(backends, draft, SUBMITTER, now[0])
    held = leasing.take(store, leasing.load_lease(store, "service/digits"), "here-1")
    writer = ServiceWriter(store, held, clocks, service_store.load(store, "digits"))
    controller = ServiceController(backends, clocks, writer, say=said.append)
    rig = Rig(store, backends, now, clocks, controller, said)

    async def is_ready(dialer, node, worker, port, path):
        rig.dials.append(f"{node.name} {worker.ip_address}:{port}{path}")
        return rig.ready

    monkeypatch.setattr(readiness, "is_ready", is_ready)
    asyncio.run(writer.claim())
    return rig


@pytest.fixture
def rig(tmp_path, monkeypatch):
    return make_rig(tmp_path, monkeypatch, ReplicaRange())


def test_a_replica_is_a_job_with_a_lease_that_knows_its_service(rig):
    rig.turns()
    (job,) = rig.jobs()
    assert (job.replica.service, job.replica.revision, job.replica.number) == ("digits", 1, 1)
    assert (job.owner, job.host_id, job.spec.resources.use_spot) == ("me@laptop", "laptop", True)
    assert leasing.load_lease(rig.store, job.job_id).holder == ""
    assert rig.record.replicas[0].job_id == job.job_id
    assert rig.record.fence == 1


def test_what_was_cut_short_before_the_job_was_written_is_made_up(rig, monkeypatch):
    """The record has the job's id first: whoever goes on finds what is missing."""
    put_job = job_submission.put_job

    def cut(store, record):
        leasing.offer(store, record.job_id, record.owner)
        raise TransientError("the bucket is away")

    monkeypatch.setattr(job_submission, "put_job", cut)
    rig.turns()
    assert (rig.jobs(), rig.said[-1]) == ([], "service digits: the bucket is away")
    monkeypatch.setattr(job_submission, "put_job", put_job)
    rig.turns()
    assert [job.job_id for job in rig.jobs()] == [rig.record.replicas[0].job_id]


def test_a_replica_becomes_ready_where_its_engine_answers(rig):
    rig.turns()
    rig.run_job()
    rig.ready = False
    rig.turns(2)
    assert rig.record.replicas[0].state == "LOADING"
    rig.ready = True
    rig.turns(2)
    replica = rig.record.replicas[0]
    assert (replica.state, rig.record.state) == ("READY", "READY")
    assert (replica.address.node, replica.address.ip_address, replica.address.port) == (
        f"{replica.job_id}-a1", "10.0.0.7", 8000
    )  # fmt: skip
    assert rig.dials[0] == f"{replica.job_id}-a1 10.0.0.7:8000/health"
    assert rig.said[-1] == "service digits: READY: 1 of 1 replica READY"


def test_a_quiet_service_writes_nothing(rig):
    rig.turns()
    rig.run_job()
    rig.turns(3)
    before = service_store.generation(rig.store, "digits")
    rig.turns(20)
    assert service_store.generation(rig.store, "digits") == before


def test_a_notice_in_the_jobs_record_ends_the_routing(rig):
    rig.turns()
    rig.run_job()
    rig.turns(3)
    report = ProxyReport("p1", {"1": 3}, routed=(1,))
    generation = service_store.save_report(rig.store, "digits", report, 0)
    rig.turns()
    rig.run_job(notice="preempted")
    rig.turns(2)
    assert [str(each.state) for each in rig.record.replicas] == ["DRAINING", "WAITING"]
    first = rig.record.replicas[0].job_id
    assert record_store.load(rig.store, first).record.cancel_requested_s is None
    done = ProxyReport("p1", {"1": 0}, routed=())
    service_store.save_report(rig.store, "digits", done, generation)
    rig.turns(2)
    assert record_store.load(rig.store, first).record.cancel_requested_s is not None


def test_a_deleted_service_goes_when_its_slices_are_gone(rig):
    rig.turns()
    rig.run_job()
    rig.turns(3)
    service_store.save_report(rig.store, "digits", ProxyReport("dead"), 0)
    rig.turns(20)  # for so long that it counts as dead
    service_submission.delete_service(rig.store, "digits", rig.now[0])
    rig.controller.recheck()
    rig.turns(2)
    (job,) = rig.jobs()
    assert job.cancel_requested_s is not None
    assert rig.record.state == "DELETING"
    rig.settle_job(job.job_id)
    rig.turns(2)
    assert rig.record.state == "DELETED"
    asyncio.run(rig.controller.run_until_settled())
    assert service_store.generation(rig.store, "digits") is None
    assert list(rig.store.list("tpuctl/service-files/")) == []


def test_a_wish_that_comes_in_between_is_not_written_over(rig):
    rig.turns()
    rig.run_job()
    service_store.request_delete(rig.store, "digits", 5.0)
    rig.turns(3)
    assert rig.record.delete_requested_s == 5.0
    assert rig.record.state == "DELETING"


def test_a_later_holder_of_the_lease_ends_the_turns_of_an_earlier_one(rig):
    rig.turns()
    stored = service_store.load(rig.store, "digits")
    service_store.save(rig.store, replace(stored.record, fence=2), stored.generation)
    rig.run_job()
    rig.controller.recheck()
    with pytest.raises(LeaseLostError):
        rig.turns()


def test_a_job_that_no_other_try_would_get_in_is_a_failed_replica(rig, monkeypatch):
    def refuse(*_args, **_options):
        raise PreconditionError("it requires what this context has not")

    monkeypatch.setattr(job_submission, "draft_record", refuse)
    rig.turns(2)
    assert rig.record.replicas[0].state == "FAILED"
    assert rig.record.replicas[0].why == "it requires what this context has not"


def test_what_is_short_now_is_tried_again(rig, monkeypatch):
    draft = job_submission.draft_record

    def refuse(*_args, **_options):
        raise CapacityError("no external address is left")

    monkeypatch.setattr(job_submission, "draft_record", refuse)
    rig.turns(3)
    assert rig.said.count("service digits: no external address is left") == 1
    monkeypatch.setattr(job_submission, "draft_record", draft)
    rig.turns()
    assert len(rig.jobs()) == 1


def test_a_record_that_makes_no_sense_is_damaged(rig):
    rig.turns()
    document = json.loads(service_store.encode(rig.record))
    (replica,), (revision,) = document["replicas"], document["revisions"]
    wrong = {
        "it has no revision": {"revisions": [], "replicas": []},
        "a revision has no engine": {
            "revisions": [{**revision, "spec": {**revision["spec"], "serve": None}}]
        },
        "replica 1 is of no revision": {"replicas": [{**replica, "revision": 9}]},
        "it is not the name of a job": {"replicas": [{**replica, "job_id": "../x"}]},
        "it is that of service 'other'": {"name": "other"},
    }
    said = {}
    for text, change in wrong.items():
        with pytest.raises(DamagedStateError) as caught:
            service_store.decode(json.dumps({**document, **change}).encode(), "digits")
        said[text] = str(caught.value)
    assert {text: line for text, line in said.items() if text not in line} == {}


def test_a_proxy_lives_while_its_report_changes(tmp_path):
    store, now = open_store(str(tmp_path)), [0.0]
    watcher = ProxyWatcher(lambda: now[0])
    one = service_store.save_report(store, "digits", ProxyReport("one", queued=1), 0)
    service_store.save_report(store, "digits", ProxyReport("two", queued=2), 0)
    watcher.look(store, "digits", 100.0)
    now[0] = proxy_watcher.DEAD_AFTER_S - 1
    service_store.save_report(store, "digits", ProxyReport("one", queued=3), one)
    watcher.look(store, "digits", 129.0)
    assert [each.report.proxy_id for each in watcher.live()] == ["one", "two"]
    now[0] += 2
    watcher.look(store, "digits", 131.0)
    assert [(each.report.queued, each.first_seen_s) for each in watcher.live()] == [(3, 129.0)]
    now[0] += proxy_watcher.REMOVED_AFTER_S
    watcher.look(store, "digits", 800.0)
    watcher.look(store, "digits", 801.0)
    assert service_store.load_reports(store, "digits") == []


def test_a_name_is_taken_once(rig):
    draft = service_submission.draft_revision(
        spec_of(ReplicaRange()), 1, rig.backends, SUBMITTER, 1.0
    )
    with pytest.raises(ConflictError, match="exists already"):
        service_submission.create_service(rig.backends, draft, SUBMITTER, 1.0)


def test_of_two_updates_at_once_one_is_refused(rig):
    def draft():
        spec = spec_of(ReplicaRange(), "serve 2")
        return service_submission.draft_revision(spec, 2, rig.backends, SUBMITTER, 1.0).revision

    first, second = draft(), draft()
    service_submission.update_service(rig.store, "digits", first, "laptop", 2.0)
    with pytest.raises(PreconditionError, match="updated by somebody else"):
        service_submission.update_service(rig.store, "digits", second, "laptop", 2.0)


def test_a_service_that_is_deleted_takes_no_update(rig):
    revision = service_submission.draft_revision(
        spec_of(ReplicaRange()), 2, rig.backends, SUBMITTER, 1.0
    ).revision
    service_submission.delete_service(rig.store, "digits", 1.0)
    with pytest.raises(PreconditionError, match="is being deleted"):
        service_submission.update_service(rig.store, "digits", revision, "laptop", 2.0)


def test_the_secrets_of_a_service_are_those_of_its_replicas(rig):
    rig.turns()
    (job,) = rig.jobs()
    bound = replace(job, spec=replace(job.spec, secrets={"TOKEN": "env:TOKEN"}))
    vault = SecretCache("laptop", {})
    assert "tpuctl service update digits FILE" in vault.missing_reason(bound)
    vault.take("service/digits", {"TOKEN": "hf_1"})
    vault.forget(job.job_id)
    assert vault.values(bound) == {"TOKEN": "hf_1"}


def test_a_replica_is_not_tried_again_by_hand(rig):
    rig.turns()
    (job,) = rig.jobs()
    rig.settle_job(job.job_id)
    with pytest.raises(PreconditionError, match="is a replica of service 'digits'"):
        client.reopen(rig.store, job.job_id, 1.0)


def test_two_prices_are_drafted(tmp_path, monkeypatch):
    rig = make_rig(tmp_path, monkeypatch, ReplicaRange(2, 2, on_demand=1))
    revision = rig.record.revision
    assert revision.usd_per_hour < revision.on_demand_usd_per_hour
    rig.turns()
    assert {job.spec.resources.use_spot for job in rig.jobs()} == {True, False}


@pytest.mark.parametrize(
    ("answer", "is_well"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", True),
        (b"HTTP/1.0 200 OK\r\n\r\n", True),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", False),
        (b"HTTP/1.1 301 Moved\r\n\r\n", False),
        (b"SSH-2.0-OpenSSH\r\n", False),
        (b"200\r\n", False),
        (b"x" * 10_000, False),
        (b"", False),
    ],
)
def test_ready_is_a_200_and_nothing_else(answer, is_well):
    async def story() -> bool:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)  # noqa: FBT003
        theirs.sendall(answer)
        theirs.shutdown(socket.SHUT_WR)

        async def dial(node, worker, port):
            return ours

        try:
            return await readiness.is_ready(dial, None, Worker(0, "10.0.0.7"), 8000, "/health")
        finally:
            theirs.close()

    assert asyncio.run(story()) is is_well
