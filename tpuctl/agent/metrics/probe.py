"""Prints a sample of this worker as a line of JSON, again and again: `node metrics`, `top`.

    python3 -X utf8 -c SOURCE EVERY_S COUNT

The first sample comes after EVERY_S, as rates need two looks; it ends after COUNT samples, or when
nobody reads any more. Standard library only, Python 3.8.
"""

from __future__ import annotations

import json
import os
import sys
import time

from tpuctl.agent.metrics.sampler import Sampler


def main() -> int:
    """Print COUNT samples; return the exit code."""
    every_s, count = float(sys.argv[1]), int(sys.argv[2])
    sampler = Sampler(os.path.expanduser("~"))
    sampler.sample({})
    due_s = time.monotonic()
    try:
        for _ in range(count):
            due_s = max(due_s + every_s, time.monotonic())
            time.sleep(max(0.0, due_s - time.monotonic()))
            sys.stdout.write(json.dumps(sampler.sample({})) + "\n")
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0
