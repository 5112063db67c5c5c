"""Random histories of one service: what must hold in each of them, whatever happens."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tpuctl.models.inference.serve_spec import ReplicaRange
from tpuctl.models.inference.service_record import ReplicaState, ServiceState
from unit.jobs.services.service_world import DRAIN_S, Proxy, World, spec_of

LEAST, MOST = 2, 4
CALM = ["nothing", "update", "other limits", "requests come", "requests go", "proxies write",
        "a proxy comes", "time passes"]  # fmt: skip
TROUBLES = ["notice", "preempt", "fail", "cancel", "broken update", "unready", "slow", "fast"]


def happen(world: World, fate: str, choice: int) -> None:  # noqa: C901, PLR0912, PLR0915 (one table)
    live = [each for each in world.running if each.job_id in world.jobs]
    chosen = live[choice % len(live)] if live else None
    runs = chosen is not None and world.job(chosen.number).attempts
    match fate:
        case "update" | "broken update":
            if fate != "update":
                world.broken.add(world.record.revisions[-1].number + 1)
            world.update(spec_of(world.limits, f"serve {world.now_s}"))
        case "other limits":
            newest = world.record.revisions[-1].spec
            limits = ReplicaRange(LEAST, MOST - choice % 2, on_demand=choice % 3, in_flight=2.0,
                                  idle_s=60.0)  # fmt: skip
            world.update(replace(newest, serve=replace(newest.serve, replicas=limits)))
        case "requests come" if world.proxies and chosen is not None:
            proxy = world.proxies[choice % len(world.proxies)]
            if chosen.state == ReplicaState.READY:
                proxy.in_flight[str(chosen.number)] = 1 + choice
            proxy.queued = choice % 3
        case "requests go":
            for proxy in world.proxies:
                proxy.in_flight, proxy.queued = {}, 0
        case "proxies write":
            world.write_reports()
        case "a proxy comes" if len(world.proxies) < 3:
            world.proxies.append(Proxy())
            world.write_reports()
        case "time passes":
            world.steps(40)
        case "notice" if runs:
            world.notify(chosen.number)
        case "preempt" if runs:
            world.lose(chosen.number)
        case "fail" if runs:
            world.fail(chosen.number)
        case "cancel" if chosen is not None:
            world.change(chosen.number, cancel_requested_s=world.now_s)
        case "unready" if runs:
            world.ready[chosen.job_id] = False
        case "slow" | "fast":
            world.is_slow = fate == "slow"


class Watched(World):
    """A world that looks after every step whether a rule was broken."""

    is_calm = True

    def step(self) -> None:
        before = len(self.cancelled)
        drains = {each.number: each for each in self.record.replicas}
        super().step()
        assert len(self.running) <= self.limits.max + 1
        known = {each.job_id for each in self.record.replicas}
        assert {job_id for job_id, job in self.jobs.items() if not job.is_settled} <= known
        for number in self.cancelled[before:]:
            self._check_cancel(number, drains[number])

    def _check_cancel(self, number, replica) -> None:
        """Nobody is cut off while a proxy says that it has requests there, before drain_s."""
        job, attempt = self.job(number), self.job(number).attempt
        is_there = attempt is not None and attempt.number == replica.attempt
        serves = is_there and replica.ready_s is not None and job.state == "RUNNING"
        if not serves or replica.state == ReplicaState.FAILED or replica.drained_since_s is None:
            return
        if self.record.replicas and self.now_s - replica.drained_since_s < DRAIN_S:
            assert not any(proxy.in_flight.get(str(number)) for proxy in self.proxies)


def is_at_rest(world: World) -> bool:
    """As few replicas as may be are READY, of the right kinds, and no other one is left."""
    floor = world.record.revision.spec.serve.replicas.on_demand
    kinds = sum(each.on_demand for each in world.running)
    is_whole = len(world.running) == world.ready_count == LEAST and kinds == min(floor, LEAST)
    engines = {world.record.revision_of(each).engine for each in world.running}
    is_settled = world.record.wanted_replicas == LEAST and engines == {world.record.revision.engine}
    return is_whole and is_settled and not world.replicas(ReplicaState.DRAINING)


FATES = st.tuples(st.sampled_from(CALM + TROUBLES), st.integers(0, 7), st.integers(1, 4))
CALM_FATES = st.tuples(st.sampled_from(CALM), st.integers(0, 7), st.integers(1, 4))


def told_world(**limits) -> Watched:
    return Watched(ReplicaRange(LEAST, MOST, in_flight=2.0, idle_s=60.0, **limits))


@given(st.lists(FATES, max_size=30), st.integers(0, 2))
def test_whatever_happens_a_deleted_service_leaves_nothing(fates, on_demand):
    world = told_world(on_demand=on_demand)
    for fate, choice, steps in fates:
        happen(world, fate, choice)
        world.steps(steps)
    world.delete()
    world.is_slow = False
    world.steps(120)
    assert world.record.state == ServiceState.DELETED
    assert all(job.is_settled for job in world.jobs.values())


@given(st.lists(CALM_FATES, max_size=30), st.integers(0, 2))
def test_without_troubles_enough_replicas_are_always_ready(fates, on_demand):
    world = told_world(on_demand=on_demand)
    world.steps(5)
    for fate, choice, steps in fates:
        happen(world, fate, choice)
        for _ in range(steps):
            world.step()
            assert world.ready_count >= LEAST
    world.proxies = []
    world.steps_until(lambda: is_at_rest(world), 250)
    world.steps(10)
    assert world.record.state == ServiceState.READY
    newest = world.record.revisions[-1]
    assert {world.record.revision_of(each).engine for each in world.running} == {newest.engine}
    floor = world.record.revision.spec.serve.replicas.on_demand
    assert sum(each.on_demand for each in world.running) == min(floor, LEAST)


@given(st.lists(FATES, max_size=30), st.integers(0, 2))
def test_when_the_troubles_are_over_it_serves_again(fates, on_demand):
    world = told_world(on_demand=on_demand)
    for fate, choice, steps in fates:
        happen(world, fate, choice)
        world.steps(steps)
    world.is_slow, world.broken, world.proxies = False, set(), []
    for job_id in world.ready:
        world.ready[job_id] = True
    world.update(spec_of(world.limits, "serve at last"))
    world.steps_until(lambda: is_at_rest(world), 500)
    world.steps(10)
    assert (world.record.state, len(world.running)) == (ServiceState.READY, LEAST)
    assert sum(each.on_demand for each in world.running) == min(on_demand, LEAST)
