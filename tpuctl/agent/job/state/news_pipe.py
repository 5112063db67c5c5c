"""A pipe by which an agent wakes the `watch` that has begun it. Python 3.8."""

from __future__ import annotations

import contextlib
import os
import select

READ_BYTES = 4096


class NewsPipe:
    """Both ends, until each of the two processes has closed the other one's."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        for end in (self.read_end, self.write_end):
            os.set_blocking(end, False)

    def keep_writer(self) -> None:
        """Be the agent."""
        os.close(self.read_end)

    def keep_reader(self) -> None:
        """Be the `watch`."""
        os.close(self.write_end)

    def tell(self) -> None:
        """Say that there is something new; nothing happens when nobody reads."""
        with contextlib.suppress(OSError):
            os.write(self.write_end, b"!")

    def wait(self, timeout_s: float) -> bool:
        """Wait for news at most so long; return whether an agent can still bring any."""
        if select.select([self.read_end], [], [], timeout_s)[0]:
            return bool(os.read(self.read_end, READ_BYTES))
        return True
