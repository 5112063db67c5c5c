"""Process isolation: a worker is a directory, an environment and a few ports of this machine.

It works everywhere. Workers share this machine's file system, address and process table, so JAX
and the simulated mesh are told by variables what a TPU VM would find at fixed ports and addresses.
"""

import asyncio
import errno
import os
import signal
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from localsim import peer_owner
from localsim.workers import chips, free_ports, processes
from localsim.workers.disk.slice_disk import SliceDisk, WorkerDisk, slice_id
from localsim.workers.isolation import process_programs
from localsim.workers.isolation.inside import process_usage
from localsim.workers.isolation.interface import Command, HostUsage, NotPossibleError, TerminalPair
from localsim.workers.isolation.process_programs import ProcessProgram
from localsim.workers.metadata_tree import MEGASCALE_PORT, megascale_attributes
from localsim.workers.processes import MARKER, Process
from localsim.workers.spec import SliceSpec

PERIOD_S = 0.3
"""Of which a slow worker's programs run a part; each one costs a look at the process table."""
METADATA_PORT = 80
LOOPBACK = ("127.0.0.1", "localhost", "::1")
GUEST = Path(__file__).parents[2] / "guest"
CANNOT_FILL_DISK = (
    "workers in process isolation share this machine's disk, which is not filled; "
    "in namespace isolation each has a disk of its own"
)


class ProcessIsolation:
    """Workers as directories and processes of this machine."""

    mode = "process"

    def __init__(self) -> None:
        self._programs: set[ProcessProgram] = set()
        self._hosts: dict[Path, tuple[ProcessHost, ...]] = {}
        self._coordinators: dict[str, tuple[str, int]] = {}
        """Multislice -> the slice whose coordinator port they all use, and that port."""

    async def boot(self, disk: SliceDisk, spec: SliceSpec) -> tuple["ProcessHost", ...]:
        """One host per worker of the slice, on which nothing runs yet."""
        port = self._coordinator_port(disk, spec)
        hosts = tuple(
            ProcessHost(worker, jax_environment(disk, spec, index), port, self._programs)
            for index, worker in enumerate(disk.workers)
        )
        self._hosts[disk.directory] = hosts
        return hosts

    async def dial(self, address: str, port: int) -> socket.socket:
        """Raise OSError: workers have no addresses of their own."""
        raise OSError(errno.EHOSTUNREACH, f"{address}:{port} is not an address of this machine")

    async def find_sender(self, peer: tuple[str, int], own: tuple[str, int]) -> WorkerDisk | None:
        """The worker whose process is at the other end of a connection to this one.

        None where none of them is, or where this system does not tell.
        """
        disks = [host.disk for hosts in self._hosts.values() for host in hosts if host.has_started]
        if not disks or not processes.has_proc():
            return None
        return await asyncio.to_thread(_owner, disks, peer, own)

    async def failure(self) -> None:
        """Never return: slices share nothing that could fail."""
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Do nothing: slices share nothing."""

    def signal(self, directory: Path, number: int) -> None:
        """Signal every program group on the slice."""
        belongs = slice_processes([directory])
        processes.signal_groups(filter(belongs, processes.list_processes()), number)

    def is_busy(self, directory: Path) -> bool:
        """Whether any program runs on the slice."""
        return any(map(slice_processes([directory]), processes.list_processes()))

    async def usage(self, directory: Path) -> list[HostUsage | None]:
        """What the programs of each worker of the slice use; None where no /proc tells it.

        The network is this machine's, and nobody's own.
        """
        if not processes.has_proc():
            return [None for _ in self._hosts.get(directory, ())]
        hosts = self._hosts.get(directory, ())
        return await asyncio.to_thread(_usage, [(host.disk, host.ended_s) for host in hosts])

    async def kill(self, directories: Collection[Path]) -> None:
        """End every process on these slices; raises processes.UnkillableError."""
        used = []
        for directory in directories:
            hosts = self._hosts.pop(directory, ())
            for host in hosts:
                host.release()
            # To look at the process table takes longer than all else that ends a slice.
            if not hosts or any(host.has_started for host in hosts):
                used.append(directory)
        if used:
            await _end(slice_processes(used), self._programs)

    def _coordinator_port(self, disk: SliceDisk, spec: SliceSpec) -> Callable[[], int]:
        """Where worker 0 of slice 0 listens for the others, asked when a program starts."""
        if spec.multislice is None:
            return lambda: disk.coordinator_port
        request = spec.multislice.request
        owner, _ = self._coordinators.get(request, (disk.name, 0))
        if owner == disk.name:  # its port may be another one than at its last boot
            self._coordinators[request] = (owner, disk.coordinator_port)
        return lambda: self._coordinators[request][1]


class ProcessHost:
    """A worker's share of this machine."""

    def __init__(
        self,
        disk: WorkerDisk,
        environment: Mapping[str, str],
        coordinator_port: Callable[[], int],
        programs: set[ProcessProgram],
    ) -> None:
        self.disk = disk
        self._coordinator_port = coordinator_port
        self._environment = dict(environment)
        self._programs = programs
        self._freezer = ProcessFreezer(lambda: worker_processes(disk))
        self._has_crashed = False
        self.has_started = False
        """Whether it was ever told to start a program."""
        self.ended_s = 0.0
        """The processors' seconds of the programs that have ended."""
        (self._metrics_port,) = free_ports.choose_ports(1, ())

    @property
    def environment(self) -> Mapping[str, str]:
        """JAX's variables, addresses, and the marker of the worker's processes."""
        return {
            **self._environment,
            "JAX_COORDINATOR_PORT": str(self._coordinator_port()),
            "TPU_RUNTIME_METRICS_PORTS": str(self._metrics_port),
            "PYTHONPATH": str(GUEST),
            "TMPDIR": str(self.disk.temporary),
            MARKER: self.disk.marker,
        }

    def home(self, user: str) -> str:  # noqa: ARG002 -- all users share it
        """Return the worker's one home directory."""
        return str(self.disk.home)

    async def dial(self, host: str, port: int) -> socket.socket:
        """Connect to loopback, nothing else: this machine's network is not the worker's."""
        if host not in LOOPBACK:
            raise OSError(errno.EHOSTUNREACH, f"{host} cannot be reached from the worker")
        connection = socket.socket()
        connection.setblocking(False)  # noqa: FBT003
        try:
            await asyncio.get_running_loop().sock_connect(connection, (free_ports.HOST, port))
        except BaseException:
            connection.close()
            raise
        return connection

    async def open_terminal(self) -> TerminalPair:
        """Return a new terminal of this machine."""
        ours, theirs = os.openpty()
        return TerminalPair(ours, theirs, os.ttyname(theirs))

    async def listen(self, port: int) -> socket.socket:
        """Return a loopback socket; variables name the ports of the metadata and metric servers."""
        listening = free_ports.listen(self._metrics_port if port == chips.METRICS_PORT else 0)
        if port == METADATA_PORT:
            address = f"{free_ports.HOST}:{listening.getsockname()[1]}"
            for variable in ("GCE_METADATA_HOST", "GCE_METADATA_IP", "GCE_METADATA_ROOT"):
                self._environment[variable] = address
        return listening

    async def start(self, command: Command) -> ProcessProgram:
        """Run a command, recorded as <pid>-<start time> before it is released."""
        if self._has_crashed:
            raise OSError(errno.EHOSTDOWN, "the worker is down")
        self.has_started = True
        program = process_programs.start_program(
            command,
            self.environment,
            self.disk.processes,
            self._programs,
            self._freezer.admit,
        )
        program.on_end = self._add_ended
        return program

    def _add_ended(self, busy_s: float) -> None:
        self.ended_s += busy_s

    async def freeze(self, *, frozen: bool) -> None:
        """Stop every process of the worker, or let them go on."""
        await self._freezer.freeze(frozen=frozen)

    async def slow_down(self, factor: float | None) -> None:
        """Stop every process for most of the time: each runs 1/`factor` of it."""
        self._freezer.slow_down(factor)

    async def connect_network(self, *, connected: bool) -> None:
        """Do nothing: workers share this machine's network, but for their SSH servers."""

    async def fill_disk(self, *, full: bool) -> None:
        """Raise NotPossibleError: workers share this machine's disk."""
        if full:
            raise NotPossibleError(CANNOT_FILL_DISK)

    async def failure(self) -> None:
        """Never return: this machine does not fail."""
        await asyncio.Event().wait()

    async def crash(self) -> None:
        """End every process of the worker; raises processes.UnkillableError."""
        self._has_crashed = True
        self.release()
        await _end(worker_processes(self.disk), self._programs)

    def release(self) -> None:
        """Freeze and slow its processes no longer."""
        self._freezer.end()


class ProcessFreezer:
    """Freezes or slows the processes of one worker."""

    def __init__(self, belongs: Callable[[], Callable[[Process], bool]]) -> None:
        """`belongs` makes a judge of who is the worker's now."""
        self._belongs = belongs
        self._is_frozen = False
        self._crawling: asyncio.Task[None] | None = None

    def admit(self, pid: int) -> None:
        """Freeze a new program that has not begun yet, if the others are frozen."""
        if self._is_frozen:
            os.kill(pid, signal.SIGSTOP)

    async def freeze(self, *, frozen: bool) -> None:
        """Stop every process, or let all go on."""
        self._is_frozen = frozen
        if not frozen:
            processes.signal_processes(await self._list(), signal.SIGCONT)
            return
        stopped: set[int] = set()
        # A process that has been sent SIGSTOP forks no more: what it forked before is found next.
        while new := [process for process in await self._list() if process.pid not in stopped]:
            processes.signal_processes(new, signal.SIGSTOP)
            stopped |= {process.pid for process in new}

    def slow_down(self, factor: float | None) -> None:
        """Let processes run 1/`factor` of the time, None always."""
        if self._crawling:
            self._crawling.cancel()
            self._crawling = None
        if factor is not None:
            self._crawling = asyncio.create_task(self._crawl(PERIOD_S / factor))

    def end(self) -> None:
        """Change no process any more; frozen ones stay frozen."""
        self._is_frozen = True
        self.slow_down(None)

    async def _crawl(self, run_s: float) -> None:
        held: list[Process] = []
        try:
            while True:
                await asyncio.sleep(run_s)
                held = await self._list()
                processes.signal_processes(held, signal.SIGSTOP)
                await asyncio.sleep(PERIOD_S - run_s)
                self._release(held)
        finally:
            self._release(held)

    def _release(self, held: list[Process]) -> None:
        if not self._is_frozen:
            processes.signal_processes(held, signal.SIGCONT)

    async def _list(self) -> list[Process]:
        """The worker's processes; the process table is read beside the event loop."""

        def look() -> list[Process]:
            belongs = self._belongs()
            return [process for process in processes.list_processes() if belongs(process)]

        return await asyncio.to_thread(look)


class ProcessFilter:
    """Whether a process belongs; also what emptied its environment, while it stays in its session.

    `records` are the files of programs that run: <pid>-<start time>.
    """

    def __init__(self, is_ours: Callable[[str], bool], records: Collection[Path]) -> None:
        """`is_ours` judges a marker."""
        self.records = records
        self._is_ours = is_ours
        self._started = dict(path.name.split("-", 1) for path in records)

    def __call__(self, process: Process) -> bool:
        """Whether a process belongs."""
        if self._is_ours(process.worker):
            return True
        recorded = self._started.get(str(process.session))
        return recorded is not None and recorded == processes.start_time(process.session)


def slice_processes(directories: Collection[Path]) -> ProcessFilter:
    """Return the filter of processes on the slices with these disks."""
    ids = {slice_id(directory) for directory in directories}
    records = [path for each in directories for path in each.glob("*/processes/*-*")]
    return ProcessFilter(lambda marker: marker.partition("-")[0] in ids, records)


def worker_processes(disk: WorkerDisk) -> ProcessFilter:
    """Return the filter of processes on one worker."""
    return ProcessFilter(lambda marker: marker == disk.marker, list(disk.processes.glob("*-*")))


def _usage(workers: Sequence[tuple[WorkerDisk, float]]) -> list[HostUsage | None]:
    """What runs on each worker uses, by one look at the process table.

    Each comes with the processors' seconds of its programs that have ended.
    """
    running = processes.list_processes()
    found: list[HostUsage | None] = []
    for disk, ended_s in workers:
        pids = [str(process.pid) for process in filter(worker_processes(disk), running)]
        busy_s = ended_s + process_usage.busy_s(pids)
        found.append(HostUsage(busy_s, process_usage.memory_bytes(pids)))
    return found


def _owner(
    disks: Sequence[WorkerDisk], peer: tuple[str, int], own: tuple[str, int]
) -> WorkerDisk | None:
    inode = peer_owner.find_inode(peer, own)
    running = processes.list_processes() if inode else []
    for disk in disks:
        if any(
            processes.has_socket(each.pid, inode)
            for each in filter(worker_processes(disk), running)
        ):
            return disk
    return None


async def _end(belongs: ProcessFilter, programs: Collection[ProcessProgram]) -> None:
    """End every process that belongs, and forget the records of their programs."""
    recorded = set(belongs.records)
    await processes.kill_processes(belongs)
    await asyncio.gather(*(each.wait() for each in list(programs) if each.record in recorded))
    for record in recorded:
        record.unlink(missing_ok=True)


def jax_environment(disk: SliceDisk, spec: SliceSpec, index: int) -> dict[str, str]:
    """Return the variables by which JAX's cluster detection and the mesh find their peers."""
    alone = {"MEGASCALE_NUM_SLICES": "1", "MEGASCALE_SLICE_ID": "0"}
    coordinator = f"{free_ports.HOST}:{MEGASCALE_PORT}" if spec.multislice else ""
    return {
        "JAX_FORCE_TPU_INIT": "1",
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": str(chips.devices_per_worker(spec.kind)),
        "TPU_WORKER_ID": str(index),
        "TPU_WORKER_HOSTNAMES": ",".join(free_ports.HOST for _ in disk.worker_ports),
        "TPU_PROCESS_ADDRESSES": ",".join(
            f"{free_ports.HOST}:{port}" for port in disk.worker_ports
        ),
        "TPU_ACCELERATOR_TYPE": spec.kind.name,
        "TPU_TOPOLOGY": spec.kind.topology,
        **(megascale_attributes(spec) or alone),
        "MEGASCALE_COORDINATOR_ADDRESS": coordinator,
    }
