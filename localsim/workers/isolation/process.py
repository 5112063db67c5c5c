"""Process isolation: a worker is a directory, an environment and a few ports of this machine.

It works everywhere. Workers share this machine's file system, address and process table, so JAX
and the simulated mesh are told by variables what a TPU VM would find at fixed ports and addresses.
"""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from localsim.workers import ports, processes
from localsim.workers.descriptors import readable
from localsim.workers.disk import SliceDisk, WorkerDisk, slice_id
from localsim.workers.isolation import Command
from localsim.workers.processes import MARKER, Process
from tpuctl.catalog import AcceleratorType

SHELL = "/bin/sh"
METADATA_PORT = 80
_GATE = 3
# The simulator may run under nohup, and Python ignores SIGPIPE: programs must not inherit that.
_RESET_SIGNALS = [
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGPIPE,
    signal.SIGTERM,
    signal.SIGXFSZ,
]
# Until the gate gives a line the process is not recorded, so it must not become anything yet: when
# the simulator dies in between, the gate breaks and so does the process.
_LAUNCH = (
    'read -r go <&3 || exit 1; exec 3<&-; cd -- "$1" || exit 1; shift; unset go OLDPWD; exec "$@"'
)


class ProcessIsolation:
    """Workers as directories and processes of this machine."""

    mode = "process"

    def __init__(self) -> None:
        self._programs: set[ProcessProgram] = set()

    async def boot(self, disk: SliceDisk, kind: AcceleratorType) -> tuple["ProcessHost", ...]:
        """One host per worker of the slice."""
        return tuple(
            ProcessHost(worker, jax_environment(disk, kind, index), self._programs)
            for index, worker in enumerate(disk.workers)
        )

    def signal(self, directory: Path, number: int) -> None:
        """Signal every program group on the slice."""
        belongs = _Belongs([directory])
        processes.send_groups(filter(belongs, processes.running()), number)

    def is_busy(self, directory: Path) -> bool:
        """Whether any program runs on the slice."""
        return any(map(_Belongs([directory]), processes.running()))

    async def kill(self, directories: Collection[Path]) -> None:
        """End every process on these slices; raises processes.UnkillableError."""
        belongs = _Belongs(directories)
        await processes.kill(belongs)
        ended = [program for program in self._programs if program.slice_id in belongs.slice_ids]
        await asyncio.gather(*(program.wait() for program in ended))
        for record in belongs.records:
            record.unlink(missing_ok=True)


class _Belongs:
    """Whether a process runs on one of these slices."""

    def __init__(self, directories: Collection[Path]) -> None:
        self.slice_ids = {slice_id(directory) for directory in directories}
        self.records = [path for each in directories for path in each.glob("*/processes/*-*")]
        self._started = dict(path.name.split("-", 1) for path in self.records)

    def __call__(self, process: Process) -> bool:
        if process.worker.partition("-")[0] in self.slice_ids:
            return True
        # Programs that emptied their environment, found as long as they stay in the session.
        recorded = self._started.get(str(process.session))
        return recorded is not None and recorded == processes.started(process.session)


class ProcessHost:
    """A worker's share of this machine."""

    def __init__(
        self, disk: WorkerDisk, environment: Mapping[str, str], programs: "set[ProcessProgram]"
    ) -> None:
        self._disk = disk
        self._environment = dict(environment)
        self._programs = programs

    @property
    def environment(self) -> Mapping[str, str]:
        """Recipe and addresses; the marker by which the worker's processes are known."""
        return {**self._environment, MARKER: self._disk.marker}

    def listen(self, port: int) -> socket.socket:
        """A loopback socket; where it cannot be the worker's own port, programs are told of it."""
        listening = ports.listen()
        if port == METADATA_PORT:
            address = f"{ports.HOST}:{listening.getsockname()[1]}"
            for variable in ("GCE_METADATA_HOST", "GCE_METADATA_IP", "GCE_METADATA_ROOT"):
                self._environment[variable] = address
        return listening

    async def start(self, command: Command) -> "ProcessProgram":
        """Run a command, recorded as <pid>-<start time> before it is released."""
        behind, gate = os.pipe()
        try:
            pid = _spawn(command, self.environment, behind)
        except OSError:
            os.close(gate)
            raise
        finally:
            os.close(behind)
        record = self._disk.processes / f"{pid}-{processes.started(pid)}"
        program = ProcessProgram(pid, record, self._programs)
        try:
            record.touch(mode=0o600)
            os.write(gate, b"go\n")
        finally:
            os.close(gate)
        return program


class ProcessProgram:
    """A session of processes, named by its leader."""

    def __init__(self, pid: int, record: Path, programs: "set[ProcessProgram]") -> None:
        self._pid = pid
        self._record = record
        self._programs = programs
        self._exit = asyncio.create_task(self._reap())
        programs.add(self)

    @property
    def slice_id(self) -> str:
        """The slice it runs on."""
        return self._record.parent.parent.parent.name

    async def wait(self) -> int:
        """Its exit status, or minus the signal that ended it."""
        return await asyncio.shield(self._exit)

    def signal(self, number: int) -> None:
        """Signal its process group, unless its leader has ended."""
        if not self._exit.done():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._pid, number)

    async def hang_up(self, grace_s: float) -> None:
        """End its process group as a vanished terminal does, by SIGKILL after the grace.

        What the program left behind when it ended stays, and so does what nohup keeps.
        """
        if self._exit.done():
            return
        self.signal(signal.SIGHUP)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace_s
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.wait(), grace_s)
        while loop.time() < deadline and self._attached():
            await asyncio.sleep(min(0.1, grace_s))
        processes.send(self._attached(), signal.SIGKILL)

    def _attached(self) -> list[Process]:
        """Its group without what was told to outlive it."""
        return [
            process
            for process in processes.running()
            if process.group == self._pid
            and (process.pid == self._pid or not process.ignores_hangup)
        ]

    async def _reap(self) -> int:
        await _exited(self._pid)
        _, status = os.waitpid(self._pid, 0)
        self._record.unlink(missing_ok=True)
        self._programs.discard(self)
        return os.waitstatus_to_exitcode(status)


def jax_environment(disk: SliceDisk, kind: AcceleratorType, index: int) -> dict[str, str]:
    """What JAX's own cluster detection and the simulated mesh need to find their peers."""
    return {
        "JAX_FORCE_TPU_INIT": "1",
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": str(kind.chips_per_worker),
        "JAX_COORDINATOR_PORT": str(disk.coordinator_port),
        "TPU_WORKER_ID": str(index),
        "TPU_WORKER_HOSTNAMES": ",".join(ports.HOST for _ in disk.worker_ports),
        "TPU_PROCESS_ADDRESSES": ",".join(f"{ports.HOST}:{port}" for port in disk.worker_ports),
        "TPU_ACCELERATOR_TYPE": kind.name,
        "TPU_TOPOLOGY": kind.topology,
        "MEGASCALE_COORDINATOR_ADDRESS": "",
        "MEGASCALE_NUM_SLICES": "1",
        "MEGASCALE_SLICE_ID": "0",
    }


def _spawn(command: Command, environment: Mapping[str, str], behind: int) -> int:
    stdin, stdout, stderr = command.streams
    actions: list[tuple[object, ...]] = [(os.POSIX_SPAWN_DUP2, stdin, 0)]
    if command.terminal:
        # The first terminal that a session's leader opens becomes the session's own.
        actions = [(os.POSIX_SPAWN_OPEN, 0, command.terminal, os.O_RDWR, 0)]
    actions += [(os.POSIX_SPAWN_DUP2, stdout, 1), (os.POSIX_SPAWN_DUP2, stderr, 2)]
    actions += [(os.POSIX_SPAWN_DUP2, behind, _GATE)]
    return os.posix_spawn(
        SHELL,
        [SHELL, "-c", _LAUNCH, SHELL, str(command.directory), *command.argv],
        {**command.environment, **environment},
        file_actions=actions,
        setsid=True,
        setsigmask=[],
        setsigdef=_RESET_SIGNALS,
    )


async def _exited(pid: int) -> None:
    """Return when a child has ended and waits to be reaped."""
    handle = _handle(pid)
    if handle is not None:
        try:
            await readable(handle)
        finally:
            os.close(handle)
        return
    # A thread of its own: the loop's few shared ones would be spent on long-lived programs.
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as thread:
        await loop.run_in_executor(thread, os.waitid, os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def _handle(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # not on every system, not in every kernel
        return None
