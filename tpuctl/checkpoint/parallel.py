"""The same work for several things at once, in threads that hold no program back."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

BACKGROUND = 10
"""What is added to the niceness of a program for what goes on beside its training."""


def parallel_map(work: Callable[[T], R], items: Sequence[T], *, threads: int) -> list[R]:
    """Call `work` on each item in threads; the results are in the order of the items.

    After a failure no other call begins; the failure is raised when the calls under way have ended.
    """
    if threads <= 1 or len(items) <= 1:
        return [work(item) for item in items]
    numbers = itertools.count()
    results: dict[int, R] = {}
    failures: list[BaseException] = []

    def run() -> None:
        while not failures and (number := next(numbers)) < len(items):
            try:
                results[number] = work(items[number])
            except BaseException as error:  # noqa: BLE001 (raised again below)
                failures.append(error)

    try:
        workers = list(_start_threads(run, min(threads, len(items)) - 1))
        run()
        for worker in workers:
            worker.join()
    except BaseException as error:  # Ctrl-C: nothing more is begun
        failures.append(error)
        raise
    if failures:
        raise failures[-1]
    return [results[number] for number in range(len(items))]


def lower_priority(niceness: int) -> None:
    """Let others go before this thread and those that it starts, where the system can (Linux).

    `niceness` (1 to 19) is added to the main thread's, which `nice` may have set; the thread's
    own is never made smaller.
    """
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with contextlib.suppress(OSError):
            wanted = os.getpriority(os.PRIO_PROCESS, os.getpid()) + niceness
            if wanted > os.getpriority(os.PRIO_PROCESS, thread):
                os.setpriority(os.PRIO_PROCESS, thread, wanted)


def _start_threads(run: Callable[[], None], count: int) -> Iterator[threading.Thread]:
    """So many threads, or fewer: while a program ends, some versions of Python start none.

    Daemons, unlike those of concurrent.futures: a program that fails does not wait for them.
    """
    with contextlib.suppress(RuntimeError):
        for _ in range(count):
            thread = threading.Thread(target=run, daemon=True)
            thread.start()
            yield thread
