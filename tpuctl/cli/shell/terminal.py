"""The person's terminal, lent to a remote shell."""

import asyncio
import contextlib
import os
import signal
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tpuctl.models.operation import Terminal

READ_BYTES = 64 * 1024


def current_terminal() -> Terminal:
    """The kind of this terminal and its present size."""
    return Terminal(os.environ.get("TERM", "xterm"), *_size())


def _size() -> os.terminal_size:
    """Columns and rows of the window itself: COLUMNS and LINES do not follow it."""
    return os.get_terminal_size(sys.stdin.fileno())


@contextmanager
def raw_mode() -> Iterator[None]:
    """Send every key to the other side during the block, Ctrl-C included."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setraw(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextmanager
def watch_size(resize: Callable[[int, int], None]) -> Iterator[None]:
    """Call `resize(columns, rows)` whenever the window changes."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGWINCH, lambda: resize(*_size()))
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)


def stdin_reader() -> asyncio.StreamReader:
    """A stream of standard input, which may be a terminal, a pipe or a file."""
    reader, loop = asyncio.StreamReader(), asyncio.get_running_loop()

    def read() -> None:
        data = b"more"
        while data:
            data = os.read(sys.stdin.fileno(), READ_BYTES)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
                loop.call_soon_threadsafe(_feed, reader, data)

    threading.Thread(target=read, daemon=True).start()
    return reader


def _feed(reader: asyncio.StreamReader, data: bytes) -> None:
    if data:
        reader.feed_data(data)
    else:
        reader.feed_eof()
