"""Whether the machine has cores to spare for one more run than was planned."""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

STAT = Path("/proc/stat")
WINDOW_S = 1.5
IDLE_FIELD = 4
"""Of the line of all cores (proc(5)): without the time in which they wait for a disk."""


def idle_seconds() -> float | None:
    """How long all cores together have been idle; None where the system does not tell."""
    try:
        fields = STAT.read_text("ascii").split("\n", 1)[0].split()
        return int(fields[IDLE_FIELD]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


@dataclass
class SpareCores:
    """Gives out cores that were idle for a while; threads share it.

    Runs wait for boots and notices at times: then others can begin.
    """

    wanted: float
    """How many cores one run needs."""
    idle_s: Callable[[], float | None] = idle_seconds
    monotonic: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _since_s: float = 0.0
    _idle_since_s: float | None = None

    def claim(self) -> bool:
        """Whether so many cores were idle since the last look, which was a while ago."""
        with self._lock:
            now_s, idle_s = self.monotonic(), self.idle_s()
            before_s, length_s = self._idle_since_s, now_s - self._since_s
            if before_s is not None and length_s < WINDOW_S:
                return False
            self._since_s, self._idle_since_s = now_s, idle_s
            if idle_s is None or before_s is None:
                return False
            return (idle_s - before_s) / length_s >= self.wanted
