"""The loop of a first process: it answers the simulator's requests and reaps what has ended."""

import contextlib
import errno
import os
import select
import signal
import socket
from typing import Any

from localsim.workers.isolation.inside import socket_messages

BACKLOG = 128
# Python ignores some signals, and the simulator may run under nohup: programs do not inherit that.
RESET_SIGNALS = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGPIPE,
    signal.SIGTERM,
    signal.SIGXFSZ,
    signal.SIGCHLD,
)


class CommandServer:
    """Answers each request by the method do_<op>, called with the request's arguments.

    A method returns the descriptors that go with the answer, which are closed when they are sent.
    """

    def __init__(self, control: socket.socket) -> None:
        """`control` is connected to the simulator; children that end wake the loop from now on."""
        self._control = control
        self._inbox = socket_messages.Inbox()
        self._reply: dict[str, Any] = {}
        """The answer to the request at hand, which its method may add to."""
        self._received: list[int] = []
        """The descriptors that came with the request at hand; the loop closes them."""
        self._ended, waking = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> None:
        """Do what the simulator asks until it has gone; raises OSError."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._ended, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll(self.turn()):
                if descriptor == self._ended:
                    self._reap()
                elif not self._inbox.receive(self._control):
                    return
            while taken := self._inbox.take():
                self._answer(*taken)

    def turn(self) -> int | None:
        """Do what is due at every turn of the loop; milliseconds until the next one, or None."""
        return None

    def end(self, process: int, status: int) -> None:
        """Handle the end of a child; `status` is that of waitpid(2)."""
        raise NotImplementedError

    def end_last(self) -> None:
        """Handle that no child is left."""

    def _answer(self, message: dict[str, Any], received: list[int]) -> None:
        self._reply, self._received = {"reply": message["id"]}, received
        descriptors: list[int] = []
        try:
            descriptors = getattr(self, f"do_{message['op']}")(**message["with"]) or []
        except OSError as error:
            self._reply["error"] = [error.errno or 0, str(error.strerror or error)]
        except RecursionError:
            self._reply["error"] = [errno.ELOOP, "programs nested directories too deep to follow"]
        socket_messages.send(self._control, self._reply, *descriptors)
        for descriptor in [*descriptors, *received]:
            os.close(descriptor)

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._ended, 4096)
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                self.end(*ended)
        except ChildProcessError:
            self.end_last()
