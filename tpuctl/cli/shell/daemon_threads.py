"""Threads that nobody waits for when a command ends."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

THREADS = 64
"""A call to a service that hangs holds one of them; heartbeats must not wait for it."""


class DaemonThreadPool(ThreadPoolExecutor):
    """A thread pool whose threads never keep the process from ending."""

    def shutdown(self, *_how: bool, **_named: bool) -> None:
        """Return at once; running threads end with the process."""
        super().shutdown(wait=False, cancel_futures=True)


def use_daemon_threads() -> None:
    """Let Ctrl-C end the running loop, whatever its threads are waiting for."""
    asyncio.get_running_loop().set_default_executor(DaemonThreadPool(THREADS))
