"""Iterates in a thread of its own, some items ahead of the reader."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from queue import Full, Queue
from typing import Generic, TypeVar

T = TypeVar("T")

_Ready = Queue[tuple[T] | Exception | None]
_MAX_READY = 16
_POLL_S = 0.2


class Prefetch(Generic[T]):
    """An iterable that begins at once, and stays some items ahead of its reader.

    Who has read enough just drops it; a program that ends does not wait for it.
    """

    def __init__(self, source: Iterable[T]) -> None:
        """Start the thread that reads the source."""
        self._ready: _Ready[T] = Queue(_MAX_READY)
        self._dropped = threading.Event()
        thread = threading.Thread(
            target=_read, args=(source, self._ready, self._dropped), daemon=True
        )
        thread.start()

    def __iter__(self) -> Iterator[T]:
        try:
            while (item := self._ready.get()) is not None:
                if isinstance(item, Exception):
                    raise item
                yield item[0]
        finally:
            self._dropped.set()

    def __del__(self) -> None:
        self._dropped.set()


def _read(source: Iterable[T], ready: _Ready[T], dropped: threading.Event) -> None:
    def offer(item: tuple[T] | Exception | None) -> None:
        while not dropped.is_set():
            try:
                ready.put(item, timeout=_POLL_S)
            except Full:
                continue
            return

    try:
        for item in source:
            offer((item,))
            if dropped.is_set():
                return
        offer(None)
    except Exception as error:  # noqa: BLE001 (raised again where the items are read)
        offer(error)
