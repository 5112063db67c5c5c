"""What a worker needs of its host, in every mode of isolation."""

import socket
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from localsim.workers.disk.slice_disk import SliceDisk
from localsim.workers.spec import SliceSpec


class NotPossibleError(Exception):
    """This mode of isolation cannot do that; str() says which one can."""


@dataclass(frozen=True, slots=True)
class TerminalPair:
    """A new terminal of the worker: our end, the program's end, and its name as programs see it."""

    ours: int
    theirs: int
    name: str


@dataclass(frozen=True, slots=True)
class Command:
    """A program to start in a session of its own."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    """All of it but what the host adds: nothing is inherited."""
    directory: str
    """Where it starts, as the worker sees it; made when it is a home that is not there yet."""
    streams: tuple[int, int, int]
    """Descriptors for stdin, stdout and stderr; they stay the caller's to close."""
    terminal: str | None = None
    """The device, as the worker sees it, that becomes the session's controlling terminal."""


class Program(Protocol):
    """A command that was started."""

    async def wait(self) -> int:
        """Its exit status, or minus the signal that ended it."""

    def signal(self, number: int) -> None:
        """Signal its process group."""


class Host(Protocol):
    """The system that one booted worker's programs run on."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that every program on it gets."""

    def home(self, user: str) -> str:
        """A user's home directory, as the worker sees it."""

    async def listen(self, port: int) -> socket.socket:
        """A listening socket for a port of the worker; raises OSError.

        Port 80 is the metadata server's, at its link-local address where the worker has one.
        """

    async def dial(self, host: str, port: int) -> socket.socket:
        """Return a non-blocking socket connected from the worker; raises OSError."""

    async def open_terminal(self) -> TerminalPair:
        """A new terminal; both ends are the caller's to close. Raises OSError."""

    async def start(self, command: Command) -> Program:
        """Run a command, recorded before it does anything; raises OSError."""

    async def freeze(self, *, frozen: bool) -> None:
        """Stop every program where it stands, or let them go on; new ones stand still too."""

    async def connect_network(self, *, connected: bool) -> None:
        """Pull the worker's network cable, or put it back. Raises NotPossibleError."""

    async def slow_down(self, factor: float | None) -> None:
        """Let programs run `factor` times slower, None: at full speed."""

    async def fill_disk(self, *, full: bool) -> None:
        """Leave no room on its disk, or free it again. Raises NotPossibleError."""

    async def failure(self) -> None:
        """Return when its processes have all ended and nobody had asked for that."""

    async def crash(self) -> None:
        """End every process of the worker at once, and let none start."""


class Isolation(Protocol):
    """One way to keep workers apart."""

    @property
    def mode(self) -> str:
        """The name of the mode, `namespace` or `process`."""

    async def boot(self, disk: SliceDisk, spec: SliceSpec) -> tuple[Host, ...]:
        """One host per worker of the slice; raises OSError."""

    async def dial(self, address: str, port: int) -> socket.socket:
        """A non-blocking socket connected to a worker's address from the VPC; raises OSError."""

    def signal(self, directory: Path, number: int) -> None:
        """Signal every program group on the slice whose disk this is."""

    def is_busy(self, directory: Path) -> bool:
        """Whether any program runs on the slice whose disk this is."""

    async def kill(self, directories: Collection[Path]) -> None:
        """End every process on these slices, also what a simulator that was killed left there."""

    async def failure(self) -> None:
        """Return when what all slices share has ended by itself, and their workers with it."""

    async def close(self) -> None:
        """End what all slices share."""
