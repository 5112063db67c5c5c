"""Questions that are asked at once, each by a thread of its own, until the time is over."""

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from tpuctl.errors import DeadlineError, TpuctlError

Key = TypeVar("Key", str, tuple[str, str])
Answer = TypeVar("Answer")


def ask_side_by_side(
    asks: Mapping[Key, Callable[[], Answer]],
    deadline_s: float,
    monotonic: Callable[[], float] = time.monotonic,
) -> Iterator[tuple[Key, Answer | TpuctlError]]:
    """Yield the key of each question with its answer or its error, as they come.

    What has no answer after `deadline_s` seconds has a DeadlineError, and nobody waits for it: its
    thread ends with the process. Raises what is not a TpuctlError.
    """
    told: queue.SimpleQueue[tuple[Key, Answer | BaseException]] = queue.SimpleQueue()

    def run(key: Key, ask: Callable[[], Answer]) -> None:
        try:
            told.put((key, ask()))
        except BaseException as error:  # noqa: BLE001 (raised again below)
            told.put((key, error))

    for key, ask in asks.items():
        threading.Thread(target=run, args=(key, ask), daemon=True).start()
    missing, last_s = dict.fromkeys(asks), monotonic() + deadline_s
    while missing:
        try:
            key, found = told.get(timeout=max(0.0, last_s - monotonic()))
        except queue.Empty:
            break
        del missing[key]
        if isinstance(found, BaseException) and not isinstance(found, TpuctlError):
            raise found
        yield key, found
    for key in missing:
        yield key, DeadlineError(f"no answer within {deadline_s:.0f} s")
