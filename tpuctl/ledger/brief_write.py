"""A note that a command makes on its way: it never fails the command, and never takes long."""

import threading
from collections.abc import Callable
from contextlib import suppress

from tpuctl.errors import TpuctlError

LONGEST_S = 2.0
"""A bucket that takes longer is not waited for."""


def write_briefly(write: Callable[[], object]) -> None:
    """Call `write` in a thread of its own; after LONGEST_S nobody waits for it any more."""

    def run() -> None:
        with suppress(TpuctlError, OSError, RuntimeError, ValueError):
            write()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(LONGEST_S)
