"""What befalls a job in a history: one function for each kind of event."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from soak.checkpoints.fault_plan import Fault
from soak.jobs.world.job_hosts import Host
from soak.jobs.world.job_universe import ZONE, World
from tpuctl.models.node import NodeSpec

NEVER_S = 100_000.0


@dataclass(frozen=True)
class Event:
    """Something that happens to the job's world at a moment."""

    at_s: float
    kind: str
    number: int = 0
    """Which worker, seat or slice; or after how many calls."""
    for_s: float = 0.0


def preempted(world: World, event: Event) -> None:
    """With notice or without: the node of a slice is taken."""
    nodes = list(world.cloud.slices)
    if not nodes:
        return
    name = nodes[event.number % len(nodes)]
    found = world.cloud.slices[name]
    if event.for_s > 0 and found.node.state == "READY":
        for host in found.hosts:
            host.is_noticed = True
            for run in host.runs.values():
                run.notice()
    node_id = found.node.node_id

    def taken() -> None:
        same = world.cloud.slices.get(name)
        if same is not None and same.node.node_id == node_id:
            world.cloud.preempt(name)

    world.universe.after(event.for_s, taken)


def on_worker(does: Callable[[Host, float], object]) -> Callable[[World, Event], None]:
    def befall(world: World, event: Event) -> None:
        hosts = world.hosts
        if hosts:
            does(hosts[event.number % len(hosts)], event.for_s)

    return befall


def agent_dies(host: Host, _for_s: float) -> None:
    for run in host.runs.values():
        run.die()


def supervisor_dies(world: World, event: Event) -> None:
    """SIGKILL; another one is started on that machine after a while, or never."""
    number = event.number % 2
    if number >= len(world.seats):
        return
    world.seats[number].machine.die()
    if event.for_s < NEVER_S:
        world.universe.after(event.for_s, partial(world.supervise, number))


def supervisor_stops(world: World, event: Event) -> None:
    """SIGSTOP, and SIGCONT later; or a laptop that sleeps."""
    number = event.number % 2
    if number < len(world.seats) and not world.seats[number].machine.is_dead:
        world.seats[number].machine.stop_for(event.for_s)


def at_call(
    does: Callable[[World, Event], None], *, late: bool = False
) -> Callable[[World, Event], None]:
    """The same at a call, the n-th from now on of the first seat's machine.

    Right before it is sent, or (late) when it has taken effect and is not answered yet.
    """

    def plan(world: World, event: Event) -> None:
        if not world.seats:
            return
        machine = world.seats[0].machine
        first = Event(event.at_s, event.kind, 0, event.for_s)
        cuts = machine.late_cuts if late else machine.cuts
        cuts[machine.asked + event.number] = partial(does, world, first)

    return plan


def call_fails(*, late: bool) -> Callable[[World, Event], None]:
    """One call fails: before it has its effect, or after."""

    def plan(world: World, event: Event) -> None:
        if not world.seats:
            return
        machine = world.seats[0].machine
        machine.failing[machine.asked + event.number] = late

    return plan


def faulty(service: str, kind: str) -> Callable[[World, Event], None]:
    """Some or all calls of a service fail for a while."""

    def plan(world: World, event: Event) -> None:
        now_s = world.universe.now_s
        share = (1.0, 0.5, 0.1)[event.number % 3]
        until_s = now_s + event.for_s
        world.faults.planned.append(Fault(service, kind, now_s, until_s, share))

    return plan


def clock_jumps(world: World, event: Event) -> None:
    """The wall clock of a machine, or of a worker, jumps either way."""
    by_s = event.for_s if event.number % 2 else -event.for_s
    if event.number < 2:
        for seat in world.seats:
            seat.machine.wall_offset_s += by_s
    for host in world.hosts[:1]:
        host.wall_offset_s += by_s


def stocked_out(world: World, event: Event) -> None:
    world.cloud.out_until_s[ZONE] = world.universe.now_s + event.for_s


def slice_deleted(world: World, event: Event) -> None:
    """By somebody, out of band: the request or only the node."""
    for name, request in list(world.cloud.requests.items()):
        if request.state == "ACTIVE":
            world.cloud.delete_request(name)


def slice_replaced(world: World, event: Event) -> None:
    """Somebody deletes a node of their own, and makes one of the same name."""
    for name, found in list(world.cloud.slices.items()):
        if found.node.queued_resource is None:
            world.cloud.end_node(name, "DELETING")
            world.cloud.past.append(world.cloud.slices.pop(name))
            spec = NodeSpec(name, ZONE, found.node.accelerator_type, found.node.runtime_version)
            made = world.cloud.add_node(spec, None)
            world.universe.after(event.for_s, partial(world.cloud.make_ready, made))


KINDS: dict[str, Callable[[World, Event], None]] = {
    "preempted": preempted,
    "worker dies": on_worker(lambda host, _: host.die()),
    "worker reboots": on_worker(lambda host, for_s: host.reboot(for_s)),
    "worker is cut off": on_worker(lambda host, for_s: host.cut_off(for_s)),
    "agent dies": on_worker(agent_dies),
    "supervisor dies": supervisor_dies,
    "supervisor stops": supervisor_stops,
    "supervisor dies at call": at_call(supervisor_dies),
    "supervisor stops at call": at_call(supervisor_stops),
    "supervisor dies after call": at_call(supervisor_dies, late=True),
    "supervisor stops after call": at_call(supervisor_stops, late=True),
    "call refused": call_fails(late=False),
    "call answer lost": call_fails(late=True),
    "second supervisor": lambda world, _: world.supervise(1),
    "storage refused": faulty("storage", "refused"),
    "storage answer lost": faulty("storage", "answer lost"),
    "storage stalled": faulty("storage", "stalled"),
    "cloud refused": faulty("cloud", "refused"),
    "cloud answer lost": faulty("cloud", "answer lost"),
    "cloud stalled": faulty("cloud", "stalled"),
    "clock jumps": clock_jumps,
    "stock-out": stocked_out,
    "slice replaced": slice_replaced,
    "cancelled": lambda world, _: world.cancel(),
    "slice deleted": slice_deleted,
}
LOSSES = frozenset({"worker dies", "worker reboots", "worker is cut off", "agent dies"})
