"""One SSH session: a program of a worker joined to a client's channel."""

import asyncio
import os
import shlex
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from asyncssh.constants import EXTENDED_DATA_STDERR

from localsim.services.ssh import sftp_stdio
from localsim.services.ssh.ssh_channel import SshSession, resize
from localsim.workers.descriptors import read_now, read_some, write_all
from localsim.workers.isolation.modes import Program
from localsim.workers.worker import Worker, WorkerStoppedError

_ACCEPTED_ENVIRONMENT = ("LANG", "LC_")
_PACKAGES = Path(sftp_stdio.__file__).parents[3]
_START_SFTP = (
    "import sys; sys.path.insert(0, sys.argv.pop(1));"
    " from localsim.services.ssh.sftp_stdio import main; main(sys.argv[1:])"
)


@dataclass(slots=True)
class _Streams:
    """The descriptors between a session and its program; the session's do not block."""

    theirs: tuple[int, int, int]
    stdin: int
    outputs: tuple[tuple[int, int | None], ...]
    """What we read, and which kind of the channel's data it becomes."""
    terminal: str | None = None
    is_stdin_open: bool = True

    def close_theirs(self) -> None:
        """Close the program's descriptors once it has inherited them."""
        for descriptor in set(self.theirs):
            os.close(descriptor)

    def end_stdin(self) -> None:
        """Close the program's stdin; a terminal has none to close."""
        if self.terminal is None:
            os.close(self.stdin)
            self.is_stdin_open = False

    def close(self) -> None:
        """Close the session's descriptors: a terminal hangs up, pipes break."""
        ours = {descriptor for descriptor, _ in self.outputs}
        for descriptor in ours | ({self.stdin} if self.is_stdin_open else set()):
            os.close(descriptor)


async def run_session(session: SshSession, worker: Worker) -> None:
    """Serve a session until its program ends or its client is gone."""
    is_terminal = session.channel.get_terminal_type() is not None  # it may have no name
    try:
        streams = await _terminal(session, worker) if is_terminal else _pipes()
    except OSError as error:
        session.refuse(str(error))
        return
    try:
        session.program = await _start(session, worker, streams)
        session.terminal = streams.stdin if is_terminal else None
        await _attend(session, session.program, streams)
    except (OSError, ValueError, WorkerStoppedError) as error:  # ValueError: a zero in a text
        session.refuse(str(error))
    finally:
        session.terminal = None
        streams.close()


def _pipes() -> _Streams:
    stdin, ours_in = os.pipe()
    ours_out, stdout = os.pipe()
    ours_err, stderr = os.pipe()
    for descriptor in (ours_in, ours_out, ours_err):
        os.set_blocking(descriptor, False)
    outputs = ((ours_out, None), (ours_err, EXTENDED_DATA_STDERR))
    return _Streams((stdin, stdout, stderr), ours_in, outputs)


async def _terminal(session: SshSession, worker: Worker) -> _Streams:
    pair = await worker.host.open_terminal()
    os.set_blocking(pair.ours, False)
    resize(pair.ours, session.channel.get_terminal_size())
    theirs = (pair.theirs, pair.theirs, pair.theirs)
    return _Streams(theirs, pair.ours, ((pair.ours, None),), pair.name)


async def _start(session: SshSession, worker: Worker, streams: _Streams) -> Program:
    asked = session.channel.get_environment()
    environment = {
        key: value for key, value in asked.items() if key.startswith(_ACCEPTED_ENVIRONMENT)
    }
    if ends := _ends(session):
        environment["SSH_CONNECTION"] = ends
    if term := session.channel.get_terminal_type():
        environment["TERM"] = term
    user = session.channel.get_extra_info("username")
    command = session.channel.get_command()
    if session.channel.get_subsystem():
        command = _sftp_command(worker, user)
    try:
        return await worker.start(
            command,
            user=user,
            environment=environment,
            streams=streams.theirs,
            terminal=streams.terminal,
        )
    finally:
        streams.close_theirs()


def _ends(session: SshSession) -> str:
    """Address and port of the client, then of the server, as sshd tells them to programs."""
    ends = [session.channel.get_extra_info(name) for name in ("peername", "sockname")]
    known = [end for end in ends if isinstance(end, tuple)]
    return " ".join(f"{end[0]} {end[1]}" for end in known) if len(known) == len(ends) else ""


def _sftp_command(worker: Worker, user: str) -> str:
    """The command that a worker's shell runs to serve SFTP to a user.

    It is a program on the worker, with what the worker can reach. Where the worker's root is its
    own that is all. Where it shares this machine's file system, what changes files is fenced in: a
    copy to a mistyped path must not land among the user's own files.
    """
    # The interpreter without `site`: it starts in a third of the time.
    start = [sys.executable, "-I", "-S", "-c", _START_SFTP, str(_PACKAGES)]
    disk = worker.disk
    is_shared = worker.host.home(user) == str(disk.home)
    fence = [str(disk.home), str(disk.temporary)] if is_shared else []
    return f"exec {shlex.join([*start, *fence])}"


async def _attend(session: SshSession, program: Program, streams: _Streams) -> None:
    """Carry the streams until the program has ended or the client has gone.

    As with OpenSSH a terminal hangs up then, and pipes break; a program that does not care goes on.
    """
    finishing = asyncio.create_task(_finish(session, program, streams))
    feeding = asyncio.create_task(_feed(session, streams))
    leaving = asyncio.create_task(session.left.wait())
    try:
        await asyncio.wait({finishing, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _cancel(finishing, feeding, leaving)


async def _finish(session: SshSession, program: Program, streams: _Streams) -> None:
    """Send all that the program still writes, then its exit status."""
    pumps = [asyncio.create_task(_pump(session, *output)) for output in streams.outputs]
    try:
        if streams.terminal is None:  # as sshd: until the last that holds the pipes has gone
            await asyncio.gather(*pumps)
        status = await program.wait()
    finally:
        await _cancel(*pumps)
    for descriptor, kind in streams.outputs:
        while rest := read_now(descriptor):
            session.channel.write(rest, kind)
    if status < 0:
        session.channel.exit_with_signal(_signal_name(-status))
    else:
        session.channel.exit(status)


async def _pump(session: SshSession, descriptor: int, kind: int | None) -> None:
    while data := await read_some(descriptor):
        await session.write(data, kind)


async def _feed(session: SshSession, streams: _Streams) -> None:
    try:
        while data := await session.read():
            await write_all(streams.stdin, data)
    except OSError:
        return  # the program reads no more
    streams.end_stdin()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name.removeprefix("SIG")
    except ValueError:  # a real-time signal has no name of its own
        return str(number)


async def _cancel(*tasks: asyncio.Task[None] | asyncio.Task[bool]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
