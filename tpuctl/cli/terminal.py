"""The person's terminal, lent to a remote shell."""

import asyncio
import os
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tpuctl.api.shell import Terminal


def current() -> Terminal:
    """What kind of terminal this is, and its size now."""
    columns, rows = shutil.get_terminal_size()
    return Terminal(os.environ.get("TERM", "xterm"), columns, rows)


@contextmanager
def raw() -> Iterator[None]:
    """Every key goes to the other side, Ctrl-C included; restored at the end."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setraw(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextmanager
def watched_size(resize: Callable[[int, int], None]) -> Iterator[None]:
    """Call `resize(columns, rows)` whenever the window changes."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGWINCH, lambda: resize(*shutil.get_terminal_size()))
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)


async def keyboard() -> asyncio.StreamReader:
    """Standard input as a stream."""
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    return reader
