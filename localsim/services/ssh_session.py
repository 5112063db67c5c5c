"""One SSH session: a worker's program joined to a client's channel, as sshd joins them."""

import asyncio
import fcntl
import os
import signal
import struct
import termios
from dataclasses import dataclass

import asyncssh

from localsim.workers.descriptors import CHUNK_BYTES, read_now, read_some, write_all
from localsim.workers.isolation import Program
from localsim.workers.worker import Worker, WorkerStoppedError

CANNOT_START = 255
_ACCEPTED_ENVIRONMENT = ("LANG", "LC_")


class Session(asyncssh.SSHServerProcess[bytes]):
    """The server's end of a channel; signals and window sizes reach the program at once."""

    program: Program | None = None
    terminal: int | None = None

    def signal_received(self, signal: str) -> None:
        """The client's signal, for the program's group."""
        if self.program and (number := _signal_number(signal)):
            self.program.signal(number)

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        """The client's window has another size."""
        if self.terminal is not None:
            _resize(self.terminal, (width, height, pixwidth, pixheight))

    def break_received(self, msec: int) -> bool:  # noqa: ARG002 -- asyncssh's
        """Breaks are not performed."""
        return False


@dataclass(slots=True)
class _Streams:
    """Descriptors between a session and its program; ours do not block."""

    theirs: tuple[int, int, int]
    stdin: int
    outputs: tuple[tuple[int, asyncssh.SSHWriter[bytes]], ...]
    terminal: str | None = None
    is_stdin_open: bool = True

    def close_theirs(self) -> None:
        """Once the program has its own."""
        for descriptor in set(self.theirs):
            os.close(descriptor)

    def end_stdin(self) -> None:
        """Let the program read to its end; a terminal has none."""
        if self.terminal is None:
            os.close(self.stdin)
            self.is_stdin_open = False

    def close(self) -> None:
        """A terminal hangs up, pipes break."""
        ours = {descriptor for descriptor, _ in self.outputs}
        for descriptor in ours | ({self.stdin} if self.is_stdin_open else set()):
            os.close(descriptor)


async def run(session: Session, worker: Worker, hangup_grace_s: float) -> None:
    """Serve a session from its request to its program's end, or to the client's."""
    if session.subsystem:
        _refuse(session, f"no subsystem {session.subsystem}")
        return
    streams = _terminal(session) if session.term_type else _pipes(session)
    try:
        session.program = await _start(session, worker, streams)
        session.terminal = streams.stdin if streams.terminal else None
        await _attend(session, session.program, streams, hangup_grace_s)
    except (OSError, WorkerStoppedError) as error:
        _refuse(session, str(error))
    finally:
        session.terminal = None
        streams.close()


def _refuse(session: Session, reason: str) -> None:
    if not session.is_closing():
        session.stderr.write(f"{reason}\n".encode())
        session.exit(CANNOT_START)


def _pipes(session: Session) -> _Streams:
    stdin, ours_in = os.pipe()
    ours_out, stdout = os.pipe()
    ours_err, stderr = os.pipe()
    for descriptor in (ours_in, ours_out, ours_err):
        os.set_blocking(descriptor, False)
    outputs = ((ours_out, session.stdout), (ours_err, session.stderr))
    return _Streams((stdin, stdout, stderr), ours_in, outputs)


def _terminal(session: Session) -> _Streams:
    ours, theirs = os.openpty()
    os.set_blocking(ours, False)
    _resize(ours, session.term_size)
    outputs = ((ours, session.stdout),)
    return _Streams((theirs, theirs, theirs), ours, outputs, os.ttyname(theirs))


def _resize(terminal: int, size: tuple[int, int, int, int]) -> None:
    columns, rows, width, height = size
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, width, height))


async def _start(session: Session, worker: Worker, streams: _Streams) -> Program:
    environment = {
        key: value for key, value in session.env.items() if key.startswith(_ACCEPTED_ENVIRONMENT)
    }
    if session.term_type:
        environment["TERM"] = session.term_type
    try:
        return await worker.start(
            session.command,
            user=session.get_extra_info("username"),
            environment=environment,
            streams=streams.theirs,
            terminal=streams.terminal,
        )
    finally:
        streams.close_theirs()


async def _attend(
    session: Session, program: Program, streams: _Streams, hangup_grace_s: float
) -> None:
    """Carry the streams until the program has ended; end it when the client goes first."""
    finishing = asyncio.create_task(_finish(session, program, streams))
    feeding = asyncio.create_task(_feed(session, streams))
    leaving = asyncio.create_task(session.wait_closed())
    try:
        await asyncio.wait({finishing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        await program.hang_up(hangup_grace_s)  # nothing to do when it has ended by itself
    finally:
        await _cancel(finishing, feeding, leaving)


async def _finish(session: Session, program: Program, streams: _Streams) -> None:
    """Carry what the program writes, all of it, then tell how it ended."""
    pumps = [asyncio.create_task(_pump(*output)) for output in streams.outputs]
    try:
        if streams.terminal is None:  # as sshd: until the last that holds the pipes has gone
            await asyncio.gather(*pumps)
        status = await program.wait()
    finally:
        await _cancel(*pumps)
    for descriptor, writer in streams.outputs:
        while rest := read_now(descriptor):
            writer.write(rest)
    if status < 0:
        session.exit_with_signal(_signal_name(-status))
    else:
        session.exit(status)


async def _pump(descriptor: int, writer: asyncssh.SSHWriter[bytes]) -> None:
    while data := await read_some(descriptor):
        writer.write(data)
        await writer.drain()


async def _feed(session: Session, streams: _Streams) -> None:
    try:
        while data := await session.stdin.read(CHUNK_BYTES):
            await write_all(streams.stdin, data)
    except OSError:
        return  # the program reads no more
    streams.end_stdin()


def _signal_number(name: str) -> signal.Signals | None:
    return signal.Signals.__members__.get(f"SIG{name}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name.removeprefix("SIG")
    except ValueError:  # a real-time signal has no name of its own
        return str(number)


async def _cancel(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
