"""What goes wrong with calls of the outside, and when; each fault is counted when it strikes."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from soak.checkpoints.strands import Outcome
from soak.jobs.world.virtual_time import Universe
from tpuctl.errors import TpuctlError, TransientError

KINDS = ("refused", "answer lost", "stalled")


@dataclass
class Fault:
    """Some of the calls of one service fail for a while."""

    service: str
    """`storage` or `cloud`."""
    kind: str
    """`refused`: without effect. `answer lost`: with its effect. `stalled`: late, then lost."""
    from_s: float
    until_s: float
    share: float = 1.0
    """Of the calls that are struck."""
    stall_s: float = 30.0


@dataclass
class Faults:
    """Every fault of a history."""

    universe: Universe
    planned: list[Fault] = field(default_factory=list)
    struck: Counter[str] = field(default_factory=Counter)

    def around(self, service: str, effect: Callable[[], Any]) -> Callable[[], Any]:
        """The call, as its service serves it when it comes."""
        return lambda: self._served(service, effect)

    def _served(self, service: str, effect: Callable[[], Any]) -> Any:
        fault = self._met(service)
        if fault is None:
            return effect()
        self.struck[f"{service} {fault.kind}"] += 1
        lost = TransientError(f"{service}: {fault.kind}")
        if fault.kind == "refused":
            raise lost
        with suppress(TpuctlError):  # its own refusal is heard as little as its success
            effect()
        outcome = Outcome(error=lost)
        outcome.stall_s = fault.stall_s if fault.kind == "stalled" else 0.0
        return outcome

    def _met(self, service: str) -> Fault | None:
        now_s = self.universe.now_s
        for fault in self.planned:
            if fault.service == service and fault.from_s <= now_s < fault.until_s:
                return fault if self.universe.draws.random() < fault.share else None
        return None
