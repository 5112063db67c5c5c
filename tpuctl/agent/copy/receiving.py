"""Runs on a worker and writes the stream of files that comes on standard input.

What came of it is said in JSON lines. Standard library only, Python 3.8.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from tpuctl.agent.copy.unpacking import Unpacker, reason
from tpuctl.agent.data.report import print_event
from tpuctl.agent.data.target_tree import LOCK_S

BLOCK_BYTES = 256 * 1024
SILENCE_S = 25.0
"""After that nobody is at the other end any more."""


def read_stdin() -> Iterator[bytes]:
    """Blocks of standard input, until it ends or is silent for SILENCE_S."""
    while select.select([0], [], [], SILENCE_S)[0]:
        block = os.read(0, BLOCK_BYTES)
        if not block:
            return
        yield block


def receive(orders: Mapping[str, Any]) -> int:
    """Write the stream where the orders say; 0 when all of it is there.

    When the orders list files of known content, the ones that are missing are said first.
    """
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))
    try:
        unpacking = Unpacker(orders, print_event, LOCK_S)
    except OSError as error:
        print_event(failed=orders["target"] or "HOME", why=reason(error), errno=error.errno or 0)
        return 1
    try:
        if "files" in orders:
            print_event(need=unpacking.missing())
        for block in read_stdin():
            unpacking.feed(block)
            if unpacking.is_over:
                return 1 if unpacking.failed else 0
    except OSError:  # which was told: the disk is full
        unpacking.report_totals()
        return 1
    finally:
        unpacking.close()
    sys.stderr.write("the other end is gone\n")
    return 1


def main() -> int:
    """Carry out the orders that are the last argument, as JSON."""
    return receive(json.loads(sys.argv[1]))
