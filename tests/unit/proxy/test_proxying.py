"""What the record of a service means for its proxy, and what the proxy writes of its load."""

import asyncio
from dataclasses import replace

import pytest

from tpuctl.errors import NotFoundError, PreconditionError, TransientError
from tpuctl.jobs.services import service_store
from tpuctl.models.inference.serve_spec import ServeSpec
from tpuctl.models.inference.service_record import (
    ProxyReport,
    Replica,
    ReplicaAddress,
    ReplicaState,
    Revision,
    ServiceRecord,
    ServiceState,
)
from tpuctl.models.job import JobSpec, Resources
from tpuctl.operations.services import proxying
from tpuctl.operations.services.proxying import LoadReporter, ProxyRun, RecordFollower
from tpuctl.proxy.access_control import AccessControl
from tpuctl.proxy.proxy_limits import ProxyLimits
from tpuctl.proxy.proxy_server import ServiceProxy
from tpuctl.proxy.replica_health import ProbeResult
from tpuctl.store import open_store

ADDRESS = ReplicaAddress("zone", "node", 0, "10.0.0.2", None, 8000)


def revision(number, ready):
    spec = JobSpec(name="chat", run="", resources=Resources(accelerators="v5litepod-1"))
    return Revision(number, replace(spec, serve=ServeSpec("serve", 8000, ready)), 0.0)


def record(*replicas, **more):
    revisions = (revision(1, "/health"), revision(2, "/ready"))
    return ServiceRecord("chat", "me", 0.0, revisions, replicas=replicas, **more)


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path))


def test_only_ready_replicas_are_routed_and_those_without_an_address_are_none():
    replicas = [
        Replica(number, f"chat-{number}", 1 + number % 2, state, address=ADDRESS)
        for number, state in enumerate(ReplicaState)
    ]
    waiting = Replica(9, "chat-9", 2, ReplicaState.READY)
    found = proxying.targets_of(record(*replicas, waiting))
    assert [each.number for each in found if each.is_routed] == [
        each.number for each in replicas if each.state is ReplicaState.READY
    ]
    assert len(found) == len(ReplicaState)
    assert {each.number % 2: each.ready_path for each in found} == {0: "/health", 1: "/ready"}


def test_the_record_is_read_when_it_has_changed(store, monkeypatch):
    async def scenario():
        seen, lines = [], []
        follower = RecordFollower(store, "chat", seen.append, lines.append)
        ready = Replica(1, "chat-1", 1, ReplicaState.READY, address=ADDRESS)
        service_store.create(store, record(ready))
        assert [await follower.look() for _ in range(3)] == [True] * 3
        assert [[each.is_routed for each in targets] for targets in seen] == [[True]]
        draining = replace(ready, state=ReplicaState.DRAINING)
        service_store.change(store, "chat", lambda old: replace(old, replicas=(draining,)))
        assert await follower.look()
        assert [each.is_routed for each in seen[-1]] == [False]
        with monkeypatch.context() as broken:

            def fail(*_given):
                raise TransientError("no network")

            broken.setattr(service_store, "generation", fail)
            assert [await follower.look() for _ in range(3)] == [True] * 3
        assert await follower.look()
        assert len(seen) == 2
        assert [line.split(":")[0] for line in lines] == [
            "the record of service 'chat' cannot be read",
            "the record of service 'chat' can be read again",
        ]
        service_store.change(store, "chat", lambda old: replace(old, ended_s=1.0))
        assert not await follower.look()
        assert seen[-1] == []

    asyncio.run(scenario())


def test_a_service_that_is_gone_has_no_proxy(store):
    with pytest.raises(NotFoundError):
        proxying.load_service(store, "chat")
    service_store.create(store, record(ended_s=1.0, state=ServiceState.DELETED))
    with pytest.raises(PreconditionError, match="DELETED"):
        proxying.load_service(store, "chat")
    assert "waiting for a supervisor" in proxying.state_note(record())
    assert proxying.state_note(record(state=ServiceState.READY)) == ""


def test_a_report_has_what_waits_and_what_is_in_flight(store):
    async def scenario():
        proxy = ServiceProxy(None, ProxyLimits(), AccessControl(None), str)
        run = ProxyRun(None, "chat", str, proxy, "p1")
        proxy.update(proxying.targets_of(record()))
        waiting = asyncio.create_task(proxy.pool.admit({}))
        await asyncio.sleep(0)
        assert run.measure(7.0) == ProxyReport("p1", {}, 1, (), 0, 7.0)
        ready = Replica(3, "chat-3", 1, ReplicaState.READY, address=ADDRESS)
        proxy.update(proxying.targets_of(record(ready)))
        proxy.pool.probe(proxy.pool.replicas[0], ProbeResult.READY, "")
        with await waiting:
            assert run.measure(8.0) == ProxyReport("p1", {"3": 1}, 0, (3,), 1, 8.0)
        draining = replace(ready, state=ReplicaState.DRAINING)
        proxy.update(proxying.targets_of(record(draining)))
        assert run.measure(9.0) == ProxyReport("p1", {"3": 0}, 0, (), 1, 9.0)
        assert 'tpuctl_proxy_in_flight{replica="3"} 0' in run.metrics_text()

    asyncio.run(scenario())


def test_the_load_is_written_when_it_changes_and_as_a_sign_of_life(store):
    async def scenario():
        load, clock = {"in_flight": {"1": 0}}, [100.0]

        def measure(now_s):
            return ProxyReport("p1", dict(load["in_flight"]), 0, (1,), 7, now_s)

        reporter = LoadReporter(store, "chat", measure, lambda: 5.0, lambda: clock[0])
        generations = []
        for change, later_s, asked in (
            (0, 0.0, False), (0, 2.0, False), (1, 2.0, False), (0, 1.0, True), (0, 1.5, False),
            (0, 7.0, False), (1, 1.9, False), (0, 4.0, False),
        ):  # fmt: skip
            load["in_flight"]["1"] += change
            if asked:
                reporter.hurry()
            clock[0] += later_s
            await reporter.write_if_due()
            [stored] = service_store.load_reports(store, "chat")
            generations.append(stored.generation)
        changed = [now != before for before, now in zip(generations, generations[1:], strict=False)]
        assert changed == [False, True, False, True, False, True, False]
        assert stored.report == measure(5.0)
        # Somebody removes it, as that of a proxy which was cut off: it is written again.
        service_store.delete_report(store, "chat", "p1", stored.generation)
        load["in_flight"]["1"] = 0
        clock[0] += 2.0
        await reporter.write_if_due()
        assert len(service_store.load_reports(store, "chat")) == 1
        task = asyncio.create_task(reporter.report())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert service_store.load_reports(store, "chat") == []

    asyncio.run(scenario())
