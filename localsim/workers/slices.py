"""The slices that run: boots, stops, preempts and destroys them, and finds their SSH servers."""

import asyncio
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeAlias, TypeVar

from localsim.worker_facts import HostIdentity
from localsim.workers import free_ports, host_faults, startup_script
from localsim.workers.disk import slice_disk as disks
from localsim.workers.disk.slice_disk import SliceDisk, WorkerDisk
from localsim.workers.isolation.interface import HostUsage
from localsim.workers.isolation.modes import Host, Isolation
from localsim.workers.spec import HEALTHY, HostFault, SliceSpec
from localsim.workers.ssh_endpoint import SshEndpoint
from localsim.workers.worker import Worker, WorkerContext

SSH_PORT = 22
METADATA_PORT = 80
CHIPS_PORT = 8430
"""Where programs tell that they hold the chips: beside the port of libtpu's metric service."""
_IDLE_POLL_S = 0.1
_S = TypeVar("_S", bound="WorkerService")


class WorkerService(Protocol):
    """Something that serves on one of a worker's ports."""

    async def close(self) -> None:
        """Cut every connection before anything else, and stop."""


OpenService: TypeAlias = Callable[[Worker, socket.socket], Awaitable[WorkerService]]
OpenSshEndpoint: TypeAlias = Callable[[Worker, socket.socket], Awaitable[SshEndpoint]]
"""They start a service of one worker on a listening socket."""


@dataclass(frozen=True, slots=True)
class _Running:
    disk: SliceDisk
    workers: tuple[Worker, ...]
    services: tuple[WorkerService, ...]
    ssh_endpoints: tuple[tuple[Worker, SshEndpoint], ...]
    """The SSH server of each worker that is up."""
    watch_tasks: tuple[asyncio.Task[None], ...]
    """What waits for a worker to fail."""

    @property
    def identities(self) -> tuple[HostIdentity, ...]:
        return tuple(worker.identity for worker in self.workers)

    def ssh_endpoint(self, address: str) -> SshEndpoint | None:
        return next(
            (endpoint for worker, endpoint in self.alive if address in worker.addresses), None
        )

    @property
    def alive(self) -> Iterator[tuple[Worker, SshEndpoint]]:
        return (each for each in self.ssh_endpoints if not each[0].fault.killed)


class Slices:
    """Every slice under one state directory."""

    def __init__(
        self,
        state_dir: Path,
        *,
        isolation: Isolation,
        open_ssh: OpenSshEndpoint,
        open_metadata: OpenService,
        open_chips: OpenService,
        context: WorkerContext,
    ) -> None:
        """The `open_` functions start a service of a worker on a listening socket."""
        self._directory = state_dir.absolute() / "slices"
        self._isolation = isolation
        self._open_ssh = open_ssh
        self._open_metadata = open_metadata
        self._open_chips = open_chips
        self._context = context
        self._running: dict[str, _Running] = {}
        self._changing = asyncio.Lock()

    async def boot(self, spec: SliceSpec) -> tuple[HostIdentity, ...]:
        """Start a slice's workers, on the disk it has or a new one; raises OSError.

        A worker that never boots gets no SSH server and runs no program.
        """
        async with self._changing:
            if spec.name not in self._running:
                self._running[spec.name] = await self._boot(spec)
            return self._running[spec.name].identities

    async def stop(self, name: str) -> None:
        """End a slice's processes and close its servers; its disks stay."""
        async with self._changing:
            await self._stop(name)

    async def destroy(self, name: str) -> None:
        """End a slice's processes, close its servers and remove its disks."""
        async with self._changing:
            was_running = await self._stop(name)
            for disk in self._of(name):
                if not was_running:
                    await self._isolation.kill([disk.directory])
                try:
                    await asyncio.to_thread(disks.remove_disk, disk.directory)
                except disks.IncompleteRemovalError as error:
                    _note(error)

    async def notice(self, name: str) -> None:
        """Tell a slice that it is about to be preempted: the metadata flag and SIGTERM."""
        if noticed := self._running.get(name):
            for worker in noticed.workers:
                worker.announce_preemption()
            self._isolation.signal(noticed.disk.directory, signal.SIGTERM)

    def terminate(self, name: str) -> None:
        """Ask every program of a slice to save its work and end, by SIGTERM."""
        if found := self._running.get(name):
            self._isolation.signal(found.disk.directory, signal.SIGTERM)

    async def idle(self, name: str) -> None:
        """Return when no program runs on a slice any more, or when it is down."""
        while (running := self._running.get(name)) is not None:
            if not self._isolation.is_busy(running.disk.directory):
                return
            await asyncio.sleep(_IDLE_POLL_S)  # programs that left their parents have no event

    def require_possible(self, fault: HostFault) -> None:
        """Raise NotPossibleError for a fault that this isolation cannot bring about."""
        host_faults.require_possible(self._isolation.mode, fault)

    async def apply_faults(self, spec: SliceSpec) -> None:
        """Bring about `spec.worker_faults`, and no other faults, on a slice that runs."""
        async with self._changing:
            if found := self._running.get(spec.name):
                await _apply_faults(found.alive, spec)

    async def usage(self) -> list[tuple[str, Worker, HostUsage]]:
        """What the programs of every worker use now, with the name of its slice.

        A worker that cannot tell is left out: one that hangs, or has no network or no power.
        """
        found = []
        for running in list(self._running.values()):
            usages = await self._isolation.usage(running.disk.directory)
            for worker, _ in running.alive:
                usage = usages[worker.index] if worker.index < len(usages) else None
                if usage is not None and not (worker.fault.hangs or worker.fault.cut_off):
                    found.append((running.disk.name, worker, usage))
        return found

    def show(self, spec: SliceSpec) -> None:
        """Show the workers of a slice its new metadata, keys and maintenance."""
        if found := self._running.get(spec.name):
            for worker in found.workers:
                worker.show(spec)

    def ssh_endpoint(self, address: str, port: int) -> SshEndpoint | None:
        """Return the SSH server at a worker's own address and port, None without one."""
        if port != SSH_PORT:
            return None
        return next(
            filter(None, (each.ssh_endpoint(address) for each in self._running.values())), None
        )

    def list_disks(self) -> Iterator[tuple[str, WorkerDisk]]:
        """`NODE/WORKER` and the disk of every worker that runs."""
        for running in list(self._running.values()):
            for index, disk in enumerate(running.disk.workers):
                yield _sender(running, index), disk

    def is_up(self, sender: str) -> bool:
        """Whether the worker `NODE/WORKER` runs and has a network."""
        for running in self._running.values():
            for worker, _ in running.alive:
                if _sender(running, worker.index) == sender:
                    return not (worker.fault.hangs or worker.fault.cut_off)
        return False

    async def find_sender(self, peer: tuple[str, int], own: tuple[str, int]) -> str:
        """`NODE/WORKER` of the worker at the other end of a connection, `peer`; else nothing."""
        for running in self._running.values():
            for worker in running.workers:
                if peer[0] in worker.addresses:
                    return _sender(running, worker.index)
        disk = await self._isolation.find_sender(peer, own)
        for running in self._running.values():
            if disk is not None and disk in running.disk.workers:
                return _sender(running, running.disk.workers.index(disk))
        return ""

    async def dial(self, address: str, port: int) -> socket.socket:
        """A non-blocking socket connected to a worker from the VPC; raises OSError."""
        return await self._isolation.dial(address, port)

    async def sweep(self, known: Collection[str]) -> None:
        """End what a killed simulator left running; remove the disks of slices not `known`."""
        async with self._changing:
            running = {each.disk.directory for each in self._running.values()}
            idle = [
                each for each in disks.slice_directories(self._directory) if each not in running
            ]
            if idle:
                await self._isolation.kill(idle)
            for directory in idle:
                disk = disks.load_disk(directory)
                if disk is None or disk.name not in known:
                    try:
                        await asyncio.to_thread(disks.remove_disk, directory)
                    except OSError as error:
                        _note(error)

    async def close(self) -> None:
        """Stop every slice."""
        async with self._changing:
            for name in list(self._running):
                await self._stop(name)

    async def _boot(self, spec: SliceSpec) -> _Running:
        disk = await self._disk(spec)
        hosts: tuple[Host, ...] = await self._isolation.boot(disk, spec)
        workers = tuple(self._worker(spec, index, disk, host) for index, host in enumerate(hosts))
        up = [worker for worker in workers if worker.index not in spec.never_boots]
        services: list[WorkerService] = []
        ssh_endpoints: list[tuple[Worker, SshEndpoint]] = []
        try:
            for worker in up:
                metadata = await worker.host.listen(METADATA_PORT)
                services.append(await _open(self._open_metadata, worker, metadata))
                chips = await worker.host.listen(CHIPS_PORT)
                services.append(await _open(self._open_chips, worker, chips))
                listening = await worker.host.listen(SSH_PORT)
                ssh_endpoints.append((worker, await _open(self._open_ssh, worker, listening)))
                services.append(ssh_endpoints[-1][1])
            await _apply_faults(ssh_endpoints, spec)
            for worker in up:
                if not worker.fault.killed:
                    await startup_script.start_scripts(worker)
        except BaseException:
            closing = (service.close() for service in services)
            await asyncio.gather(*closing, self._isolation.kill([disk.directory]))
            raise
        watch_tasks = tuple(
            asyncio.create_task(self._watch_worker(spec.name, worker)) for worker in up
        )
        return _Running(disk, workers, tuple(services), tuple(ssh_endpoints), watch_tasks)

    async def _watch_worker(self, name: str, worker: Worker) -> None:
        await worker.host.failure()
        await self._context.lost(name, worker.index)

    def _worker(self, spec: SliceSpec, index: int, disk: SliceDisk, host: Host) -> Worker:
        return Worker(
            spec,
            index,
            hostname=disk.hostname(index),
            disk=disk.worker(index),
            host=host,
            context=self._context,
        )

    async def _stop(self, name: str) -> bool:
        """Stop a slice; False when it does not run."""
        stopped = self._running.pop(name, None)
        if stopped is None:
            return False
        for watch_task in stopped.watch_tasks:
            watch_task.cancel()
        for worker in stopped.workers:
            worker.cut_power()
        # Connections break first, as when power fails: no client is told an exit status. The
        # servers then wait for their sessions, and those for their programs.
        closing = (service.close() for service in stopped.services)
        await asyncio.gather(*closing, self._isolation.kill([stopped.disk.directory]))
        return True

    async def _disk(self, spec: SliceSpec) -> SliceDisk:
        """The disk with free ports, and nothing running on it."""
        taken = {port for each in self._running.values() for port in each.disk.ports}
        for disk in self._of(spec.name):
            await self._isolation.kill([disk.directory])
            return _with_free_ports(disk, taken)
        chosen = free_ports.choose_ports(1 + len(spec.addresses), taken)
        return await asyncio.to_thread(disks.create_disk, self._directory, spec.name, chosen)

    def _of(self, name: str) -> list[SliceDisk]:
        """Return the disk of a slice, if it has one."""
        slice_disks = map(disks.load_disk, disks.slice_directories(self._directory))
        return [disk for disk in slice_disks if disk and disk.name == name]


def _sender(running: _Running, index: int) -> str:
    return f"{running.disk.name.rpartition('/')[2]}/{index}"


async def _open(
    opening: Callable[[Worker, socket.socket], Awaitable[_S]],
    worker: Worker,
    listening: socket.socket,
) -> _S:
    try:
        return await opening(worker, listening)
    except BaseException:
        listening.close()
        raise


def _note(error: OSError) -> None:
    """Tell whoever looks after the simulator; the next start tries again."""
    sys.stderr.write(f"localsim: {error}\n")


async def _apply_faults(found: Iterable[tuple[Worker, SshEndpoint]], spec: SliceSpec) -> None:
    for worker, endpoint in found:
        await host_faults.apply_fault(
            worker, endpoint, spec.worker_faults.get(worker.index, HEALTHY)
        )


def _with_free_ports(disk: SliceDisk, taken: Collection[int]) -> SliceDisk:
    if not disk.ports & set(taken) and free_ports.are_free(disk.ports):
        return disk
    coordinator, *workers = free_ports.choose_ports(len(disk.ports), taken)
    disk = replace(disk, coordinator_port=coordinator, worker_ports=tuple(workers))
    disk.save()
    return disk
