"""Since when no process holds the chips of a running job's workers, as their agents measure it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tpuctl.byte_size import names_text
from tpuctl.jobs.record.status_text import format_duration
from tpuctl.jobs.workers.sample_tail import AgentSample

IDLE_S = 600.0
"""As `tpuctl explain` has it: longer than an installation of packages takes."""
MOST_NAMED = 5


@dataclass(slots=True)
class IdleWatch:
    """What was seen of the workers of one attempt."""

    chips_are_free: Callable[[AgentSample], bool]
    attempt: int = 0
    free_s: dict[int, float] = field(default_factory=dict)
    """By worker, the time of the first of the samples in a row in which its chips were free."""

    def look(self, attempt: int, newest: Iterable[tuple[int, AgentSample]]) -> str:
        """What is to be said of idle chips; empty while there are none.

        `newest` has the newest sample of each worker that was measured.
        """
        if attempt != self.attempt:
            self.attempt, self.free_s = attempt, {}
        idle_s = {}
        for worker_id, sample in newest:
            if not self.chips_are_free(sample):
                self.free_s.pop(worker_id, None)
            elif sample.time_s - self.free_s.setdefault(worker_id, sample.time_s) >= IDLE_S:
                idle_s[worker_id] = sample.time_s - self.free_s[worker_id]
        if not idle_s:
            return ""
        names = names_text([str(worker_id) for worker_id in sorted(idle_s)], MOST_NAMED)
        word = "worker" if len(idle_s) == 1 else "workers"
        held = format_duration(min(idle_s.values()))
        return f"no process has held those of {word} {names} for {held}"
