"""One job in a universe of its own: its machines with real supervisors, its cloud, its workers."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from unit.jobs.jobs_world import refuse_to_open

from soak.checkpoints.fault_plan import Fault, Faults
from soak.jobs.world.job_agents import command
from soak.jobs.world.job_bucket import Bucket, BucketClient
from soak.jobs.world.job_cloud import USD_PER_HOUR, Cloud, CloudClient, Slice
from soak.jobs.world.job_hosts import Channel, Host, RemoteShell, open_shell
from soak.jobs.world.job_switch import Switches
from soak.jobs.world.job_training import Program, Trainings
from soak.jobs.world.virtual_time import EPOCH_S, Machine, Universe
from tpuctl.errors import TpuctlError
from tpuctl.jobs.interfaces import Backends, Clocks
from tpuctl.jobs.leases import lease as leasing
from tpuctl.jobs.leases.supervisor_scope import SupervisorScope
from tpuctl.jobs.record import record_store as records
from tpuctl.jobs.secrets.job_secrets import SecretCache
from tpuctl.jobs.supervisor.supervisor import Supervisor
from tpuctl.models.job import JobRecord, JobSpec
from tpuctl.models.node import NodeSpec, Worker

ZONES = ("us-west4-a", "us-west4-b", "us-east1-c")
ZONE = ZONES[0]
OWNER = "me"
JOB_ID = "digits-a1b2c3"
TYPE = "v5litepod-16"
DUTY = SupervisorScope((OWNER,))
KEY_LINE = "tpuctl:ssh-ed25519 K"


@dataclass
class Seat:
    """A computer where supervisors of the job's owner run, one after the other."""

    number: int
    machine: Machine
    started: int = 0
    task: "asyncio.Task[None] | None" = None

    @property
    def is_busy(self) -> bool:
        """A supervisor runs here, or stands still."""
        return not self.machine.is_dead and self.task is not None and not self.task.done()


@dataclass
class World:
    """Everything there is."""

    universe: Universe
    program: Program
    workers: int = 2
    provisioning_s: float = 20.0
    seats: list[Seat] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    bugs: list[BaseException] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bucket = Bucket(self.universe)
        self.faults = Faults(self.universe)
        self.store = BucketClient(self.bucket, None, self.faults)
        self.cloud = Cloud(self.universe, self.workers, self.provisioning_s)
        self.cloud.on_ready = self._join
        self.switches = Switches(self.cloud, self.bucket, self.faults)
        self.trainings = Trainings(self.universe, self.bucket, self.faults, self.program)

    # ------------------------------------------------------------------ the job

    def submit(self, spec: JobSpec, node: str | None) -> None:
        """File the job, as `job submit` does, with nobody in the way."""
        self.cloud.at_once = spec.search.at_once
        record = JobRecord(
            job_id=JOB_ID, spec=spec, owner=OWNER, submitted_s=EPOCH_S, zone=ZONE,
            accelerator_type=TYPE, zones=ZONES[: spec.search.at_once], node=node,
            usd_per_hour=USD_PER_HOUR,
        )  # fmt: skip
        leasing.offer(self.store, JOB_ID, OWNER)
        records.create(self.store, record)
        if node is not None:
            spec_of_node = NodeSpec(node, ZONE, TYPE, "v2-alpha-tpuv5-lite")
            self.cloud.make_ready(self.cloud.add_node(spec_of_node, None))

    @property
    def record(self) -> JobRecord:
        return records.load(self.store, JOB_ID).record

    @property
    def calls(self) -> int:
        """What the machines of the first seat asked of the outside."""
        return sum(each.asked for each in self.universe.machines if each.name == "m0")

    def cancel(self) -> None:
        """As `job cancel` from a machine of its own."""
        machine = Machine(self.universe, "somebody's")
        store = self._outside(machine).store
        ask = partial(records.request_cancel, store, JOB_ID, machine.wall_s())
        machine.loop.create_task(_quietly(ask))

    # ------------------------------------------------------------------ supervisors

    def supervise(self, number: int) -> None:
        """Start a supervisor on a machine, when none runs there."""
        while len(self.seats) <= number:
            self.seats.append(Seat(len(self.seats), self._new_machine(len(self.seats))))
        seat = self.seats[number]
        if seat.is_busy:
            return
        if seat.machine.is_dead:
            seat.machine = self._new_machine(number)
        seat.started += 1
        seat.task = seat.machine.loop.create_task(self._supervising(seat))
        seat.machine.deliver(lambda: None)

    async def _supervising(self, seat: Seat) -> None:
        machine = seat.machine
        clocks = Clocks(machine.wall_s, machine.monotonic_s, asyncio.sleep)
        outside = self._outside(machine)
        while True:
            vault = SecretCache(f"seat{seat.number}", {})
            supervisor = Supervisor(outside, DUTY, vault, clocks, partial(self._say, seat))
            try:
                await supervisor.serve()
                if not await supervisor.has_work():
                    return
            except TpuctlError as error:
                self._say(seat, f"ended: {error}")
                return
            except Exception as error:  # noqa: BLE001 (what the history is about to tell)
                self.bugs.append(error)
                return

    def _say(self, seat: Seat, line: str) -> None:
        self.said.append(f"{self.universe.now_s:8.2f} seat{seat.number}: {line}")

    def _new_machine(self, number: int) -> Machine:
        return Machine(self.universe, f"m{number}")

    def _outside(self, machine: Machine) -> Backends:
        async def login(_node: object, worker: Worker) -> RemoteShell:
            host = self.cloud.host_at(worker.ip_address)
            return await open_shell(machine, host, worker.worker_id)

        return Backends(
            context="here",
            zone=ZONE,
            bucket="b",
            storage_endpoint="http://storage",
            store=BucketClient(self.bucket, machine, self.faults),
            tpu=CloudClient(self.cloud, machine, self.faults),
            open_shell=login,
            key_line=KEY_LINE,
            open_store=refuse_to_open,
        )

    # ------------------------------------------------------------------ workers

    def _join(self, found: Slice) -> None:
        for host in found.hosts:
            host.on_command = self._command
        found.hosts[0].on_boot = partial(self.switches.boot, found)
        self.switches.boot(found)

    def _command(self, host: Host, argv: list[str], stdin: bytes, channel: Channel | None) -> Any:
        put = self._put
        return command(host, argv, stdin, channel, put, self.trainings)

    def _put(self, key: str, data: bytes) -> Any:
        return self.faults.around("storage", lambda: self.bucket.put(key, data, 0))()

    @property
    def hosts(self) -> list[Host]:
        """The workers of the slices that are READY."""
        ready = [each for each in self.cloud.slices.values() if each.node.state == "READY"]
        return [host for each in ready for host in each.hosts]

    def befall(self, service_and_kind: str, *, for_s: float) -> None:
        """From now on every call of a service fails."""
        service, _, kind = service_and_kind.partition(" ")
        now_s = self.universe.now_s
        self.faults.planned.append(Fault(service, kind, now_s, now_s + for_s))

    def bury(self) -> None:
        """End what still runs."""
        self.switches.close()
        for machine in self.universe.machines:
            machine.bury()


async def _quietly(work: Callable[[], Any]) -> None:
    for _ in range(20):
        try:
            await asyncio.to_thread(work)
            return
        except TpuctlError:
            await asyncio.sleep(5.0)


def counted(struck: Mapping[str, int]) -> str:
    """`2 storage refused, 1 …`"""
    return ", ".join(f"{count} {what}" for what, count in sorted(struck.items()))
