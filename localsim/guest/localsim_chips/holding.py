"""Holding the chips of the worker: from the first use of them to the end of the process.

The simulator listens at LOCALSIM_CHIPS in the worker. It greets a connection with the names of the
lock file and of the chips' device files; a program that has the lock says so, and from then on
tells what it does, a line of JSON each time. With the connection the holding ends.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import socket
import threading
import time

from . import lock
from .hooks import note

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

DOOR = "LOCALSIM_CHIPS"
"""The variable that says where the simulator listens, host:port; without it there are no chips."""
INTERVAL_S = 1.0
ANSWER_S = 2.0
_MOST_OF_TIME = 0.02
"""Looking at what a program holds takes at most this share of its time."""


class Usage:
    """What a program does on its chips: bytes on each device, and the share of time it is busy.

    `chips` has, where the program knows it, for each chip what `Executions.report` returns, and
    `hbm_bandwidth`, the share of the memory's bandwidth that it used.
    """

    def __init__(
        self, hbm_bytes: list[int], busy: float, chips: list[dict[str, Any]] | None = None
    ) -> None:
        self.hbm_bytes = hbm_bytes
        self.busy = busy
        self.chips = chips or []

    def line(self) -> dict[str, Any]:
        """Return the report as it goes to the simulator."""
        line = {"bytes": self.hbm_bytes, "busy": round(self.busy, 4)}
        return {**line, "chips": self.chips} if self.chips else line


class _Held:
    """The chips, as this process has them."""

    def __init__(self, channel: _Channel, devices: list[int], look: Callable[[], Usage]) -> None:
        self.look = look
        self._process = os.getpid()
        self._channel = channel
        self._devices = devices
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tell, name="localsim-chips", daemon=True)

    def begin(self) -> None:
        """Tell from now on what is done on the chips."""
        atexit.register(self._end)
        self._thread.start()

    def forget(self) -> None:
        """Let a child of a fork have no part in it, but for the open device files.

        Its thread is not there, and who held a lock at the fork may never give it back.
        """
        self._channel.close()

    def _tell(self) -> None:
        pause_s = 0.0
        while not self._over.wait(pause_s):
            began_s = time.monotonic()
            try:
                usage = self.look()
                self._channel.send(usage.line())
            except OSError:
                return  # the simulator has gone, or will soon end this process too
            except Exception as error:  # noqa: BLE001 -- private names of a framework
                note(f"what the program holds cannot be seen: {type(error).__name__}: {error}")
            pause_s = max(INTERVAL_S, (time.monotonic() - began_s) / _MOST_OF_TIME)

    def _end(self) -> None:
        """Be out of the framework's code before the interpreter is taken down."""
        if os.getpid() != self._process:
            return
        self._over.set()
        self._thread.join(ANSWER_S)


class _Channel:
    """Lines of JSON to the simulator and back."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._rest = b""

    def receive(self) -> Any:
        """The next line; raises OSError, ValueError."""
        while b"\n" not in self._rest:
            part = self._socket.recv(65536)
            if not part:
                raise ConnectionResetError("the simulator hung up")
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def send(self, words: dict[str, Any]) -> None:
        """Send a line; raises OSError."""
        self._socket.sendall(json.dumps(words).encode() + b"\n")

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


_HELD: dict[int, _Held] = {}
"""By process: a forked child holds nothing of its parent's."""
_ONCE = threading.Lock()


def hold(look: Callable[[], Usage], environ: Mapping[str, str] = os.environ) -> None:
    """Hold this worker's chips until the process ends, and let `look` say what is done on them.

    Nothing happens where there are no simulated chips. Raises lock.NotLoadedError.
    """
    with _ONCE:
        held = _HELD.get(os.getpid())
        if held is not None:
            held.look = look
            return
        channel = _call(environ.get(DOOR, ""))
        if channel is None:
            return
        try:
            greeting = channel.receive()
            lock.acquire(greeting["lock"], environ)
            devices = _open(greeting["devices"], environ)
            channel.send({"hold": os.getpid()})
            channel.receive()
        except lock.NotLoadedError:
            channel.close()
            raise
        except (OSError, ValueError, KeyError, TypeError) as error:
            channel.close()
            note(f"the chips are not held: {type(error).__name__}: {error}")
            return
        _HELD[os.getpid()] = held = _Held(channel, devices, look)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=held.forget)
        held.begin()


def _call(address: str) -> _Channel | None:
    """A connection to the simulator; None where there is none."""
    host, _, port = address.rpartition(":")
    if not host:
        return None
    try:
        connection = socket.create_connection((host, int(port)), ANSWER_S)
    except (OSError, ValueError) as error:
        note(f"the chips are not held: {address}: {error}")
        return None
    return _Channel(connection)


def _open(devices: list[str], environ: Mapping[str, str]) -> list[int]:
    """Descriptors of the device files of the chips that this process is to use."""
    shown = environ.get("TPU_VISIBLE_CHIPS") or environ.get("TPU_VISIBLE_DEVICES") or ""
    wanted = {part.strip() for part in shown.split(",") if part.strip()}
    opened = []
    for index, device in enumerate(devices):
        if not wanted or str(index) in wanted:
            with contextlib.suppress(OSError):
                opened.append(os.open(device, os.O_RDWR))
    return opened
