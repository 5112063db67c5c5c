"""The simulator's connection to the first processes of the VPC and of each worker."""

import asyncio
import contextlib
import errno
import itertools
import os
import resource
import socket
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from localsim.workers.isolation.inside.socket_messages import GarbledError, Inbox, pack

Reply = tuple[dict[str, Any], list[int]]
_FOUND = {"boot": 1, "listen": 1, "socket": 1, "terminal": 2}
"""Request -> how many descriptors come with its answer."""
_TOO_MANY = "too many open files: the simulator may open {} (ulimit -n)"
API_ADDRESS = "10.127.0.1"
"""Where the emulated APIs answer inside the VPC."""
METADATA_ADDRESS = "169.254.169.254"
"""Link-local: each worker has a metadata server of its own there, and the VPC itself has one."""
_SOURCE = Path(__file__).parents[3]
_START = (
    "import sys; sys.path.insert(0, sys.argv[3]); "
    "from localsim.workers.isolation.inside.launcher import main; "
    "main(int(sys.argv[1]), int(sys.argv[2]))"
)


class VpcEndedError(OSError):
    """The process that should answer has ended."""

    def __init__(self) -> None:
        super().__init__(errno.ESHUTDOWN, "it is switched off")


class Channel:
    """Sends requests to a process inside; replies come in any order, news at any time."""

    def __init__(self, connection: socket.socket, news: Callable[[dict[str, Any]], None]) -> None:
        """`news` gets messages that are not replies, and `{}` at the end."""
        connection.setblocking(False)  # noqa: FBT003
        self._connection = connection
        self._news = news
        self._inbox = Inbox()
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Reply]] = {}
        self._unsent: deque[tuple[bytes, tuple[int, ...]]] = deque()
        self._is_open = True
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(connection, self._read)

    async def ask(self, op: str, *descriptors: int, **arguments: Any) -> Reply:
        """Send a request; return its reply and descriptors. Raises OSError, VpcEndedError.

        The descriptors that are sent stay the caller's to close.
        """
        if not self._is_open:
            raise VpcEndedError
        number = next(self._numbers)
        answer: asyncio.Future[Reply] = self._loop.create_future()
        self._waiting[number] = answer
        self._send({"id": number, "op": op, "with": arguments}, descriptors)
        try:
            reply, found = await asyncio.shield(answer)
        except asyncio.CancelledError:
            answer.add_done_callback(_discard)
            raise
        if "error" in reply:
            _close(found)
            raise OSError(*reply["error"])
        if len(found) == _FOUND.get(op, 0):
            return reply, found
        _close(found)
        if reply["lacks_descriptors"]:
            raise OSError(
                errno.EMFILE, _TOO_MANY.format(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
            )
        raise OSError(errno.EPROTO, "the answer of its first process cannot be read")

    def tell(self, op: str, **arguments: Any) -> None:
        """Send a request whose answer nobody waits for."""
        if self._is_open:
            self._send({"id": -1, "op": op, "with": arguments}, ())

    def close(self) -> None:
        """Close the connection; waiting requests raise VpcEndedError."""
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._connection)
            self._loop.remove_writer(self._connection)
            self._connection.close()
            self._inbox.close()
            for _, descriptors in self._unsent:
                _close(descriptors)
            self._unsent.clear()
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(VpcEndedError())
                    answer.add_done_callback(lambda each: each.exception())
            self._waiting.clear()
            self._news({})

    def _send(self, message: dict[str, Any], descriptors: tuple[int, ...]) -> None:
        # The caller may close its own as soon as it is cancelled, sent or not.
        ours = tuple(map(os.dup, descriptors))
        self._unsent.append((pack(message, len(ours)), ours))
        if len(self._unsent) == 1:
            self._write()

    def _write(self) -> None:
        try:
            while self._unsent:
                data, descriptors = self._unsent[0]
                if descriptors:
                    sent = socket.send_fds(self._connection, [data], descriptors)
                    _close(descriptors)
                else:
                    sent = self._connection.send(data)
                if sent < len(data):
                    self._unsent[0] = data[sent:], ()
                else:
                    self._unsent.popleft()
            self._loop.remove_writer(self._connection)
        except BlockingIOError:
            self._loop.add_writer(self._connection, self._write)
        except OSError:
            self.close()

    def _read(self) -> None:
        try:
            if not self._inbox.receive(self._connection):
                self.close()
                return
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        try:
            while self._is_open and (taken := self._inbox.take()):
                self._take(*taken)
        except (GarbledError, LookupError, TypeError, ValueError):
            self.close()  # what comes from a worker is its programs', if they want that

    def _take(self, message: dict[str, Any], descriptors: list[int]) -> None:
        answer = self._waiting.pop(message.get("reply", -1), None)
        if answer is not None:
            message["lacks_descriptors"] = self._inbox.lacks_descriptors
            answer.set_result((message, descriptors))
            return
        _close(descriptors)
        if "reply" not in message:
            self._news(message)


def _discard(answer: "asyncio.Future[Reply]") -> None:
    """Nobody waits for this answer any more."""
    if not answer.cancelled() and answer.exception() is None:
        _close(answer.result()[1])


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


async def start_vpc(
    executable: str, news: Callable[[dict[str, Any]], None]
) -> "tuple[asyncio.subprocess.Process, Channel]":
    """Start a VPC; raises OSError with the kernel's reason where it allows none."""
    ours, theirs = socket.socketpair()
    up: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

    def first(message: dict[str, Any]) -> None:
        if not up.done():
            up.set_result(message)
        else:
            news(message)

    with theirs:
        process = await asyncio.create_subprocess_exec(
            executable,
            *("-I", "-S", "-c", _START),
            *(str(theirs.fileno()), str(os.getpid()), str(_SOURCE)),
            pass_fds=(theirs.fileno(),),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            env={},
            cwd="/",
        )
    channel = Channel(ours, first)
    message = await up
    if "ready" not in message:
        channel.close()
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise OSError(message.get("failed", "the launcher ended at once"))
    return process, channel
