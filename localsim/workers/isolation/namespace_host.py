"""One worker in namespaces of its own, as the simulator commands its first process."""

import asyncio
import errno
import ipaddress
import signal
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from localsim.workers import chips
from localsim.workers.isolation.interface import Command, HostUsage, TerminalPair
from localsim.workers.isolation.vpc import METADATA_ADDRESS, Channel

METADATA_PORT = 80
CHIPS_PORT = 8430
_ADDRESSES = {
    METADATA_PORT: METADATA_ADDRESS,
    chips.METRICS_PORT: "127.0.0.1",
    CHIPS_PORT: "127.0.0.1",
}
"""Ports that are not for everybody -> where they are served."""


@dataclass(frozen=True, slots=True)
class HostNetwork:
    """A worker's number, address and routes in the VPC."""

    worker: int
    """The number that the VPC knows it by."""
    address: str
    names: Mapping[str, str]
    """Host name -> address of every worker."""
    routes: Sequence[Mapping[str, str]]
    """The ways to its further addresses."""


class NamespaceHost:
    """The system of one worker."""

    def __init__(
        self,
        place: HostNetwork,
        descriptor: int,
        *,
        vpc: Channel,
        environment: Mapping[str, str],
    ) -> None:
        """`descriptor` is the way to the worker's first process."""
        self.place = place
        self.busy = asyncio.Event()
        """Set while any program runs on it."""
        self._environment = environment
        self._vpc = vpc
        self._programs: dict[int, NamespaceProgram] = {}
        self._full: set[str] = set()
        """Why its disk is full."""
        self._count = 0
        self._ready: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._over = asyncio.Event()
        self._failed = asyncio.Event()
        self._is_to_end = False
        self._channel = Channel(socket.socket(fileno=descriptor), self._news)

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that every program on it gets."""
        return self._environment

    def home(self, user: str) -> str:
        """A user's home directory, as the worker sees it."""
        return "/root" if user == "root" else f"/home/{user.replace('/', '_')}"

    async def up(self) -> list[str]:
        """Wait for the boot; return notes on files that could be made only in part. OSError."""
        message = await self._ready
        if "ready" not in message:
            raise OSError(message.get("failed", "its first process ended at once"))
        return [str(note) for note in message["notes"]]

    async def listen(self, port: int) -> socket.socket:
        """A listening socket for a port of the worker; raises OSError.

        Port 80 is the metadata server's, at its link-local address.
        """
        address = _ADDRESSES.get(port, "0.0.0.0")  # noqa: S104 -- the worker's own addresses
        _, (descriptor,) = await self._channel.ask("listen", address=address, port=port)
        return socket.socket(fileno=descriptor)

    async def dial(self, host: str, port: int) -> socket.socket:
        """A non-blocking socket connected from the worker; raises OSError."""
        address = self.place.names.get(host, "127.0.0.1" if host == "localhost" else host)
        _, (descriptor,) = await self._channel.ask("socket")
        return await connect_socket(descriptor, address, port)

    async def open_terminal(self) -> TerminalPair:
        """A new terminal; both ends are the caller's to close. Raises OSError."""
        reply, (ours, theirs) = await self._channel.ask("terminal")
        return TerminalPair(ours, theirs, reply["name"])

    async def start(self, command: Command) -> "NamespaceProgram":
        """Run a command; raises OSError."""
        self._count += 1
        program = NamespaceProgram(self._count, self._channel)
        self._programs[self._count] = program
        try:
            await self._channel.ask(
                "start",
                *command.streams,
                program=program.number,
                argv=command.argv,
                environment={**command.environment, **self._environment},
                directory=command.directory,
                terminal=command.terminal,
            )
        except BaseException:
            self._programs.pop(program.number, None)
            raise
        self.busy.set()
        return program

    async def usage(self) -> HostUsage:
        """What its programs use; raises OSError."""
        reply, _ = await self._channel.ask("usage")
        return HostUsage(**reply["usage"])

    async def freeze(self, *, frozen: bool) -> None:
        """Stop every program where it stands, or let them go on; new ones stand still too."""
        await self._channel.ask("freeze", frozen=frozen)

    async def connect_network(self, *, connected: bool) -> None:
        """Pull the worker's network cable, or put it back."""
        await self._vpc.ask("cable", worker=self.place.worker, up=connected)

    async def slow_down(self, factor: float | None) -> None:
        """Let programs run `factor` times slower, None: at full speed."""
        await self._channel.ask("slow", factor=factor or 1.0)

    async def fill_disk(self, *, full: bool) -> None:
        """Leave no room on its disk, or free it again."""
        await self._fill("asked for", full=full)

    async def limit_disk(self, *, full: bool) -> None:
        """Do the same because the disk holds more than its limit."""
        await self._fill("limit", full=full)

    async def settle_disk(self) -> None:
        """Carry deletions on a full disk out where they are measured."""
        await self._channel.ask("settle")

    async def _fill(self, reason: str, *, full: bool) -> None:
        was_full = bool(self._full)
        (self._full.add if full else self._full.discard)(reason)
        if was_full != bool(self._full):
            await self._channel.ask("fill", full=full)

    async def crash(self) -> None:
        """End every process of the worker at once, and let none start."""
        self._is_to_end = True
        self._vpc.tell("kill", worker=self.place.worker)
        await self._over.wait()

    def signal_groups(self, number: int) -> None:
        """Signal every process group of the worker."""
        self._channel.tell("signal_groups", number=number)

    async def failure(self) -> None:
        """Return when its processes have all ended and nobody had asked for that."""
        await self._failed.wait()

    def end(self) -> None:
        """Note that no process of it is left."""
        self._over.set()
        self._channel.close()

    def fail(self) -> None:
        """Note the same; it is a failure unless a crash was asked for."""
        self.end()
        if not self._is_to_end:
            self._failed.set()

    def _news(self, message: dict[str, Any]) -> None:
        if not self._ready.done():
            self._ready.set_result(message)
        elif "exited" in message:
            self._programs.pop(message["exited"]).end(message["status"])
        elif "idle" in message:
            self.busy.clear()
        elif not message:
            if not self._over.is_set():  # it is there, and nobody commands it any more
                self._vpc.tell("kill", worker=self.place.worker)
            self.busy.clear()
            for program in self._programs.values():
                program.end(-signal.SIGKILL)
            self._programs.clear()


class NamespaceProgram:
    """A session of processes on a worker."""

    def __init__(self, number: int, channel: Channel) -> None:
        self.number = number
        self._channel = channel
        self._exit: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def end(self, status: int) -> None:
        """Note its exit status, or minus the signal."""
        if not self._exit.done():
            self._exit.set_result(status)

    async def wait(self) -> int:
        """Its exit status, or minus the signal that ended it."""
        return await asyncio.shield(self._exit)

    def signal(self, number: int) -> None:
        """Signal its process group, unless its leader has ended."""
        if not self._exit.done():
            self._channel.tell("signal", program=self.number, number=number)


async def connect_socket(descriptor: int, address: str, port: int) -> socket.socket:
    """Connect a socket, given by descriptor; raises OSError, and closes it then."""
    connection = socket.socket(fileno=descriptor)
    connection.setblocking(False)  # noqa: FBT003
    try:
        ipaddress.IPv4Address(address)  # a name would be looked up by this machine
        await asyncio.get_running_loop().sock_connect(connection, (address, port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException as error:
        connection.close()
        if isinstance(error, ValueError):  # a name that is nobody's
            raise OSError(errno.EHOSTUNREACH, f"{address} is not an address of the VPC") from error
        raise
    return connection
