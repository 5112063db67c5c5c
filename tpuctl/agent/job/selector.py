"""Waits for signals, other threads, output of processes, or time. Python 3.8."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
from collections.abc import Callable

WAKING_BYTES = 1024


class Selector:
    """A pipe to wake up on, and the descriptors that somebody wants to read."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        for end in (self.read_end, self.write_end):
            os.set_blocking(end, False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.read_end, selectors.EVENT_READ)
        self.actions: dict[int, Callable[[], None]] = {}

    def listen(self, on_term: Callable[[], None], on_stop: Callable[[], None]) -> None:
        """Let signals end a wait; SIGTERM and SIGUSR2 also call a function each."""
        signal.set_wakeup_fd(self.write_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, lambda *_: on_term())
        signal.signal(signal.SIGUSR2, lambda *_: on_stop())
        for number in (signal.SIGUSR1, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)

    def wake(self) -> None:
        """End a wait, from any thread."""
        with contextlib.suppress(BlockingIOError):
            os.write(self.write_end, b"!")

    def watch(self, descriptor: int, take: Callable[[bytes], None]) -> None:
        """Give every block that can be read there to `take`, until its end."""
        self.selector.register(descriptor, selectors.EVENT_READ, take)

    def watch_ready(self, descriptor: int, act: Callable[[], None]) -> None:
        """Call `act` whenever there is something at a descriptor that reads for itself."""
        self.actions[descriptor] = act
        self.selector.register(descriptor, selectors.EVENT_READ, act)

    def forget(self) -> None:
        """Watch no descriptor any more."""
        for key in self.watched():
            self.selector.unregister(key.fd)

    def watched(self) -> list[selectors.SelectorKey]:
        """Return the descriptors that have not reached their end."""
        return [key for key in self.selector.get_map().values() if key.data is not None]

    def wait(self, timeout_s: float, block_bytes: int) -> None:
        """Wait for an event up to `timeout_s`, and pass on up to `block_bytes` of each output."""
        for key, _ in self.selector.select(timeout_s):
            if key.data is None:
                os.read(self.read_end, WAKING_BYTES)
                continue
            if key.fd in self.actions:
                self.actions[key.fd]()
            elif block := read_block(key.fd, block_bytes):
                key.data(block)
            else:
                self.selector.unregister(key.fd)


def read_block(descriptor: int, block_bytes: int) -> bytes:
    """Read what is there; empty at the end, which a connection that breaks is too."""
    try:
        return os.read(descriptor, block_bytes)
    except ConnectionError:
        return b""
