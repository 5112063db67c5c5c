"""What a worker needs of its host, whichever way hosts are kept apart."""

import socket
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from localsim.workers.disk import SliceDisk
from tpuctl.catalog import AcceleratorType


@dataclass(frozen=True, slots=True)
class Command:
    """A program to start in a session of its own."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    """All of it but what the host adds: nothing is inherited."""
    directory: Path
    streams: tuple[int, int, int]
    """Descriptors for stdin, stdout and stderr; they stay the caller's to close."""
    terminal: str | None = None
    """The device that becomes the session's controlling terminal."""


class Program(Protocol):
    """A command that was started."""

    async def wait(self) -> int:
        """Its exit status, or minus the signal that ended it."""

    def signal(self, number: int) -> None:
        """Signal its process group."""

    async def hang_up(self, grace_s: float) -> None:
        """End its process group as a vanished terminal does, by SIGKILL after the grace."""


class Host(Protocol):
    """The system that one booted worker's programs run on."""

    @property
    def environment(self) -> Mapping[str, str]:
        """What every program on it is told by variables."""

    def listen(self, port: int) -> socket.socket:
        """A listening socket for a port of the worker; raises OSError."""

    async def start(self, command: Command) -> Program:
        """Run a command; its process is known on disk before it does anything. Raises OSError."""


class Isolation(Protocol):
    """One way to keep workers apart."""

    @property
    def mode(self) -> str:
        """Its public name."""

    async def boot(self, disk: SliceDisk, kind: AcceleratorType) -> tuple[Host, ...]:
        """One host per worker of the slice; raises OSError."""

    def signal(self, directory: Path, number: int) -> None:
        """Signal every program group on the slice whose disk this is."""

    def is_busy(self, directory: Path) -> bool:
        """Whether any program runs on the slice whose disk this is."""

    async def kill(self, directories: Collection[Path]) -> None:
        """End every process on these slices, also what a simulator that was killed left there."""
