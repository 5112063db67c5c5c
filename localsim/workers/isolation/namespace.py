"""Namespace isolation: each worker is a host of its own, in a VPC of the simulator's own (Linux).

The kernel gives all of it to an ordinary user: no root, no container runtime, no helper programs.
"""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from localsim import guest
from localsim.workers import chips
from localsim.workers.disk import disk_limit, root_plan, trust
from localsim.workers.disk.slice_disk import SliceDisk, WorkerDisk
from localsim.workers.isolation import launcher_record, vpc
from localsim.workers.isolation.interface import HostUsage
from localsim.workers.isolation.namespace_host import HostNetwork, NamespaceHost, connect_socket
from localsim.workers.isolation.process import ProcessIsolation
from localsim.workers.isolation.vpc import Channel
from localsim.workers.isolation.vpc_services import VpcServices
from localsim.workers.spec import SUBNET_PREFIX, SliceSpec

GUEST = "/opt/localsim/python"
LIBTPU = "/lib/libtpu.so"
SHARED_FILES = {"python": Path(guest.__path__[0])}
"""What is put on every worker, below /opt/localsim."""
_METADATA = (vpc.METADATA_ADDRESS, "metadata.google.internal metadata")


class HostsFile:
    """The /etc/hosts of all workers; rewritten in place, as they have this file mounted."""

    def __init__(self, path: Path, services: Collection[str]) -> None:
        """`services` are the names of what the simulator serves in the VPC."""
        self.path = path
        self.addresses: dict[str, str] = {}
        """Host name -> address, of every worker."""
        self._fixed = [("127.0.0.1", "localhost"), _METADATA]
        self._fixed += [(vpc.API_ADDRESS, name) for name in services]
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._write()

    def add(self, names: Mapping[str, str]) -> None:
        """Add addresses by host name, the canonical name of an address first; raises OSError."""
        self.addresses.update(names)
        self._write()

    def remove(self, names: Iterable[str]) -> None:
        """Remove host names; raises OSError."""
        for name in names:
            self.addresses.pop(name, None)
        self._write()

    def _write(self) -> None:
        names_of: dict[str, list[str]] = {}
        for name, address in self.addresses.items():
            names_of.setdefault(address, []).append(name)
        rows = [*self._fixed]
        rows += [(address, " ".join(names)) for address, names in names_of.items()]
        content = "".join(f"{address}\t{names}\n" for address, names in rows).encode()
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(descriptor, content, 0)
            os.truncate(descriptor, len(content))
        finally:
            os.close(descriptor)


class NamespaceIsolation:
    """Workers in namespaces of their own; docs/simulated-host.md explains them."""

    mode = "namespace"

    def __init__(self, state_dir: Path, services: VpcServices) -> None:
        self._state_dir = state_dir
        self._shared = state_dir / "vpc"
        self._hosts_file = HostsFile(self._shared / "hosts", services.names)
        self._subnets: dict[str, asyncio.Future[str]] = {}
        """Network -> its bridge."""
        self._slices: dict[Path, tuple[NamespaceHost, ...]] = {}
        self._hosts: dict[int, NamespaceHost] = {}
        self._watching: dict[int, asyncio.Task[None]] = {}
        self._has_told = False
        self._over = asyncio.Event()
        self._services = services
        self._preparing: asyncio.Future[None] | None = None
        """Begun with the first worker: many simulators never have one."""
        self._channel: Channel
        self._launcher: asyncio.subprocess.Process

    @classmethod
    async def open(cls, state_dir: Path, services: VpcServices | None = None) -> Self:
        """Start a VPC without workers; raises OSError with the kernel's reason when it refuses."""
        isolation = cls(state_dir, services or VpcServices())
        await launcher_record.end_orphans(state_dir)
        isolation._launcher, isolation._channel = await vpc.start_vpc(
            sys.executable, isolation._news
        )
        launcher_record.record_launcher(state_dir, isolation._launcher.pid)
        try:
            for address in (vpc.API_ADDRESS, vpc.METADATA_ADDRESS):
                await isolation._channel.ask("address", address=address)
        except BaseException:
            await isolation.close()
            raise
        return isolation

    async def listen(self, address: str, port: int) -> socket.socket:
        """A listening socket in the VPC itself; raises OSError."""
        _, (descriptor,) = await self._channel.ask("listen", address=address, port=port)
        return socket.socket(fileno=descriptor)

    async def dial(self, address: str, port: int) -> socket.socket:
        """A connection from the VPC to a worker's address; raises OSError."""
        _, (descriptor,) = await self._channel.ask("socket")
        return await connect_socket(descriptor, address, port)

    async def find_sender(self, _peer: tuple[str, int], _own: tuple[str, int]) -> WorkerDisk | None:
        """Return None: who has no address of a worker is none."""
        return None

    async def boot(self, disk: SliceDisk, spec: SliceSpec) -> tuple["NamespaceHost", ...]:
        """One host per worker of the slice; raises OSError."""
        await self._prepare(spec.accelerator_type)
        names = dict(_names(disk, spec))
        self._hosts_file.add(names)
        booting = [self._boot(disk, spec, index) for index in range(len(spec.addresses))]
        outcomes = await asyncio.gather(*booting, return_exceptions=True)
        hosts = tuple(each for each in outcomes if isinstance(each, NamespaceHost))
        self._slices[disk.directory] = hosts
        for error in outcomes:
            if isinstance(error, BaseException):
                await self.kill([disk.directory])
                self._hosts_file.remove(names)
                raise error
        return hosts

    def signal(self, directory: Path, number: int) -> None:
        """Signal every program group on the slice."""
        for host in self._slices.get(directory, ()):
            host.signal_groups(number)

    def is_busy(self, directory: Path) -> bool:
        """Whether any program runs on the slice."""
        return any(host.busy.is_set() for host in self._slices.get(directory, ()))

    async def usage(self, directory: Path) -> list[HostUsage | None]:
        """What the programs of each worker of the slice use; None for one that has just ended."""
        asked = [host.usage() for host in self._slices.get(directory, ())]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        return [each if isinstance(each, HostUsage) else None for each in answers]

    async def kill(self, directories: Collection[Path]) -> None:
        """Switch these slices' workers off; what ran in another mode before is ended as well."""
        strange = [directory for directory in directories if directory not in self._slices]
        for directory in directories:
            hosts = self._slices.pop(directory, ())
            await asyncio.gather(*(host.crash() for host in hosts))
            await self._forget(hosts)
        if strange:
            await ProcessIsolation().kill(strange)

    async def failure(self) -> None:
        """Return when the VPC has ended, with all its workers."""
        await self._over.wait()

    async def close(self) -> None:
        """End the VPC and everything in it."""
        self._channel.close()
        await self._launcher.wait()
        if self._preparing is not None:
            await asyncio.wait({self._preparing})
        launcher_record.forget_launcher(self._state_dir)

    def _news(self, message: dict[str, Any]) -> None:
        """A worker has ended; `{}`: all of them have."""
        if not message:
            self._over.set()
        for worker in [message["ended"]] if message else list(self._hosts):
            if host := self._hosts.pop(worker, None):
                (host.fail if message else host.end)()
            if watching := self._watching.pop(worker, None):
                watching.cancel()

    async def _prepare(self, accelerator_type: str) -> None:
        """Make what workers of this type share, but for what is there; raises OSError."""
        if self._preparing is None:
            preparing = asyncio.to_thread(
                root_plan.prepare_shared,
                self._shared,
                SHARED_FILES,
                pythons=self._services.pythons,
                proxy=self._services.proxy,
                find_authority=self._services.find_authority,
            )
            self._preparing = asyncio.ensure_future(preparing)
        await asyncio.shield(self._preparing)
        root_plan.prepare_chips(self._shared, accelerator_type)

    async def _boot(self, disk: SliceDisk, spec: SliceSpec, index: int) -> "NamespaceHost":
        address, *external = spec.addresses_of(index)
        bridge = await self._bridge(spec)
        reply, (descriptor,) = await self._channel.ask(
            "boot",
            bridge=bridge,
            hostname=disk.hostname(index),
            addresses=[f"{address}/{SUBNET_PREFIX}", *(f"{each}/32" for each in external)],
            gateway=spec.gateway,
            plan=root_plan.plan_root(
                disk.worker(index),
                accelerator_type=spec.accelerator_type,
                hosts_file=self._hosts_file.path,
                shared=self._shared,
                pythons=self._services.pythons,
            ),
        )
        ways = [{"target": each, "via": address, "bridge": bridge} for each in external]
        place = HostNetwork(reply["worker"], address, self._hosts_file.addresses, ways)
        host = NamespaceHost(
            place,
            descriptor,
            vpc=self._channel,
            environment=program_environment(chips.devices_per_worker(spec.kind)),
        )
        self._hosts[place.worker] = host
        try:
            self._tell(await host.up())
            watching = asyncio.create_task(_watch(disk.worker(index), host))
            self._watching[place.worker] = watching
            for way in ways:
                await self._channel.ask("route", **way)
        except BaseException:
            self._channel.tell("kill", worker=place.worker)
            raise
        return host

    def _tell(self, notes: list[str]) -> None:
        """Say on stderr, for the first worker, what it lacks; it is much the same for all."""
        if notes and not self._has_told:
            self._has_told = True
            sys.stderr.write("".join(f"workers' files: {note}\n" for note in notes))

    async def _bridge(self, spec: SliceSpec) -> str:
        key = str(spec.subnet)
        if key not in self._subnets:
            made = self._subnets[key] = asyncio.get_running_loop().create_future()
            bridge = f"br{len(self._subnets)}"
            try:
                gateway = f"{spec.gateway}/{SUBNET_PREFIX}"
                await self._channel.ask("subnet", bridge=bridge, gateway=gateway)
            except BaseException as error:
                del self._subnets[key]
                made.set_exception(error)
                raise
            made.set_result(bridge)
        return await self._subnets[key]

    async def _forget(self, hosts: Collection[NamespaceHost]) -> None:
        gone = {host.place.address for host in hosts}
        names = self._hosts_file.addresses.items()
        self._hosts_file.remove([name for name, address in names if address in gone])
        for way in (way for host in hosts for way in host.place.routes):
            with contextlib.suppress(OSError):
                await self._channel.ask("unroute", **way)


def _names(disk: SliceDisk, spec: SliceSpec) -> Iterator[tuple[str, str]]:
    """Host name, address; the whole name first, which makes it the canonical one."""
    for index, address in enumerate(spec.addresses):
        hostname = disk.hostname(index)
        yield spec.full_name(hostname), address
        yield hostname, address


async def _watch(disk: WorkerDisk, host: NamespaceHost) -> None:
    with contextlib.suppress(OSError):  # it has been switched off
        await disk_limit.enforce_limit(disk, host, busy=host.busy)


def program_environment(devices: int) -> dict[str, str]:
    """Return the variables of every program: as on a TPU VM no TPU_* but the library's path.

    JAX computes on as many devices of this machine's processor as a TPU VM has.
    """
    return {
        "JAX_NUM_CPU_DEVICES": str(devices),
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": GUEST,
        "TPU_LIBRARY_PATH": LIBTPU,
        **dict.fromkeys(trust.VARIABLES, str(trust.BUNDLE)),
    }
