"""Runs on a worker and writes the stream that comes on standard input: `node cp` to workers.

Shipped as `python3 -X utf8 -c SOURCE ORDERS`; says what came of it in JSON lines. Standard library
only, Python 3.8.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys

from tpuctl.agent.copy.unpacking import Unpacker, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

BLOCK_BYTES = 256 * 1024
SILENCE_S = 25.0
"""After that nobody is at the other end any more."""


def print_event(**event: Any) -> None:
    """One JSON line."""
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def read_stdin() -> Iterator[bytes]:
    """What comes on standard input, until nobody is there any more."""
    while select.select([0], [], [], SILENCE_S)[0]:
        block = os.read(0, BLOCK_BYTES)
        if not block:
            return
        yield block


def main() -> int:
    """Write what comes to where the orders, the last argument, say; 0 when all of it is there."""
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))
    orders = json.loads(sys.argv[1])
    try:
        unpacking = Unpacker(orders, print_event)
    except OSError as error:
        print_event(failed=orders["target"] or "HOME", why=reason(error), errno=error.errno or 0)
        return 1
    try:
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
