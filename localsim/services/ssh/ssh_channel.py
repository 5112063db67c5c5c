"""The server's end of an SSH session's channel: the client's requests, and the bytes both ways."""

import asyncio
import fcntl
import struct
import termios
from collections.abc import Callable
from signal import Signals
from typing import Any

import asyncssh

from localsim.workers.isolation.modes import Program

SFTP = "sftp"
"""The one subsystem."""
CANNOT_START = 255
_UNREAD_BYTES = 256 * 1024
"""What waits for a program that does not read before the client is told to wait."""
_LARGEST_SIDE = 0xFFFF
"""The most columns or rows of a terminal; clients may name more."""


class SshSession(asyncssh.SSHServerSession[bytes]):
    """The server's end of a channel; signals and window sizes reach the program at once."""

    channel: "asyncssh.SSHServerChannel[bytes]"

    def __init__(self, begin: Callable[["SshSession"], None]) -> None:
        """`begin` is called once the client has said what it wants."""
        self.program: Program | None = None
        self.terminal: int | None = None
        self.left = asyncio.Event()
        self._begin = begin
        self._writable = asyncio.Event()
        self._writable.set()
        self._arrived = asyncio.Event()
        self._unread = bytearray()
        self._is_at_end = False

    async def read(self) -> bytes:
        """Wait for bytes of the client; empty at the end."""
        while not self._unread and not self._is_at_end:
            self._arrived.clear()
            await self._arrived.wait()
        data = bytes(self._unread)
        self._unread.clear()
        if len(data) >= _UNREAD_BYTES:
            self.channel.resume_reading()
        return data

    async def write(self, data: bytes, kind: int | None) -> None:
        """Send bytes, and return when more may be sent; raises OSError when the client is gone."""
        self.channel.write(data, kind)
        await self._writable.wait()

    def refuse(self, reason: str) -> None:
        """End the session with a reason on stderr."""
        if not self.channel.is_closing():
            self.channel.write_stderr(f"{reason}\n".encode())
            self.channel.exit(CANNOT_START)

    def connection_made(self, chan: "asyncssh.SSHServerChannel[bytes]") -> None:
        """Keep the channel."""
        self.channel = chan

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 -- asyncssh's
        """Note that the client, or its channel, is gone."""
        self._is_at_end = True
        for event in (self.left, self._writable, self._arrived):
            event.set()

    def _accept(self, *_asked: Any, **_named: Any) -> bool:
        return True

    # The channel knows what was asked for.
    pty_requested = shell_requested = exec_requested = _accept

    def subsystem_requested(self, subsystem: str) -> bool:
        """Accept SFTP and no other subsystem."""
        return subsystem == SFTP

    def session_started(self) -> None:
        """Begin the session: the client has made its requests."""
        self._begin(self)

    def data_received(self, data: bytes, datatype: int | None) -> None:  # noqa: ARG002
        """Queue bytes for the program."""
        self._unread += data
        self._arrived.set()
        if len(self._unread) >= _UNREAD_BYTES:
            self.channel.pause_reading()

    def eof_received(self) -> bool:
        """Note that the client sends no more; the program may go on writing."""
        self._is_at_end = True
        self._arrived.set()
        return True

    def pause_writing(self) -> None:
        """Stop sending: the client reads too slowly."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Send again."""
        self._writable.set()

    def signal_received(self, signal: str) -> None:
        """Send the client's signal to the program's process group."""
        if self.program and (number := Signals.__members__.get(f"SIG{signal}")):
            self.program.signal(number)

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        """Set the terminal to the size of the client's window."""
        if self.terminal is not None:
            resize(self.terminal, (width, height, pixwidth, pixheight))


def resize(terminal: int, size: tuple[int, int, int, int]) -> None:
    """Give a terminal the size of a client's window: columns, rows, and both in pixels."""
    columns, rows, width, height = (min(each, _LARGEST_SIDE) for each in size)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, width, height))
