"""One sample of a worker after another: its host, its chips and its program. Python 3.8."""

from __future__ import annotations

import math
import time

from tpuctl.agent.metrics.chip_probe import ChipProbe
from tpuctl.agent.metrics.host_probe import HostProbe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MOST_KEYS = 32
"""How many of a program's own numbers are kept."""
LONGEST_KEY = 64


class Sampler:
    """Measures a worker each time it is asked; rates are those since the time before."""

    def __init__(self, place: str = "/") -> None:
        """`place` is a path on the disk whose space is measured."""
        self.host = HostProbe(place=place)
        self.chips = ChipProbe()
        self.program = ProgramPace()

    def sample(self, status: Mapping[str, Any]) -> dict[str, Any]:
        """Return {"time_s": T, "values": {NAME: NUMBER}}; `status` is what the program told."""
        now_s = time.time()
        values = {**self.host.measure(), **self.chips.measure()}
        values.update(self.program.measure(status, time.monotonic()))
        return {"time_s": round(now_s, 3), "values": values}


class ProgramPace:
    """What a program prints, and how fast its steps follow each other."""

    def __init__(self) -> None:
        self.step: int | None = None
        self.looked_s = 0.0
        self.moved_s = 0.0
        """When the step was first seen."""

    def measure(self, status: Mapping[str, Any], now_s: float) -> dict[str, float]:
        """Return the program's numbers; empty before its first step."""
        found = printed_numbers(status.get("metrics") or {})
        if status.get("rss_bytes"):
            found["program.memory_bytes"] = float(status["rss_bytes"])
        step = status.get("step")
        if step is None:
            return found
        if self.step is not None and step >= self.step and now_s > self.looked_s:
            found["program.steps_per_s"] = (step - self.step) / (now_s - self.looked_s)
        if step != self.step:
            self.moved_s = now_s
        self.step, self.looked_s = step, now_s
        return {**found, "program.step": float(step), "program.step_age_s": now_s - self.moved_s}


def printed_numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return the finite numbers of `key=value` words, by `program.KEY`."""
    numbers = {
        f"program.{key}": float(value)
        for key, value in metrics.items()
        if isinstance(value, (int, float)) and math.isfinite(value) and len(key) <= LONGEST_KEY
    }
    return dict(sorted(numbers.items())[:MOST_KEYS])
