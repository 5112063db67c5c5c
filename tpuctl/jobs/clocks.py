"""This machine's clocks."""

import asyncio
import time

from tpuctl.jobs.interfaces import Clocks


def elapsed_s() -> float:
    """Seconds since some moment, those of suspension included: a lease ends in them as well."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


SYSTEM_CLOCKS = Clocks(time.time, time.monotonic, asyncio.sleep, elapsed_s)
