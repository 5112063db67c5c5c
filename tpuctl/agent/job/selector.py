"""What wakes the agent's one loop: signals, other threads, output, or time. Python 3.8."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

WAKING_BYTES = 1024


class Selector:
    """A pipe to wake up on, and the descriptors that somebody wants to read."""

    def __init__(self) -> None:
        self.wake_end, self.ring_end = os.pipe()
        for end in (self.wake_end, self.ring_end):
            os.set_blocking(end, False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.wake_end, selectors.EVENT_READ)

    def listen(self, on_term: Callable[[], None], on_stop: Callable[[], None]) -> None:
        """Signals wake: SIGTERM and SIGUSR2 call, SIGUSR1 and SIGCHLD say look."""
        signal.set_wakeup_fd(self.ring_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, lambda *_: on_term())
        signal.signal(signal.SIGUSR2, lambda *_: on_stop())
        for number in (signal.SIGUSR1, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)

    def ring(self) -> None:
        """Wake up, from any thread."""
        with contextlib.suppress(BlockingIOError):
            os.write(self.ring_end, b"!")

    def watch(self, descriptor: int, take: Callable[[bytes], None]) -> None:
        """Give every block that can be read there to `take`, until its end."""
        self.selector.register(descriptor, selectors.EVENT_READ, take)

    def forget(self) -> None:
        """Watch nothing any more."""
        for key in self.watched():
            self.selector.unregister(key.fd)

    def watched(self) -> list[selectors.SelectorKey]:
        """What is still to be read."""
        return [key for key in self.selector.get_map().values() if key.data is not None]

    def wait(self, timeout_s: float, block_bytes: int) -> None:
        """Sleep until something happens, or for so long; hand over what came."""
        for key, _ in self.selector.select(timeout_s):
            if key.data is None:
                os.read(self.wake_end, WAKING_BYTES)
                continue
            block = os.read(key.fd, block_bytes)
            if block:
                key.data(block)
            else:
                self.selector.unregister(key.fd)
