"""Whether a slice that nobody reaches still works: its agents send their log to the bucket."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tpuctl.jobs.logs import segments
from tpuctl.jobs.logs.segments import LogSource
from tpuctl.models.job import WorkerReport
from tpuctl.store import Store

LOOK_EVERY_S = 10.0
SIGN_LIFE_S = 60.0
"""For so long after new lines came to the bucket a slice counts as working; an agent sends new
lines every 15 s."""


@dataclass(slots=True)
class SignsOfLife:
    """What tells apart a slice that is gone from one to which only our way is cut.

    Times are those of one clock of this machine; the clocks of the bucket and of workers are
    never compared with it.
    """

    looked_s: float | None = None
    ends: dict[LogSource, int] = field(default_factory=dict)
    """Up to which byte the bucket has the log of each worker."""
    grown_s: float | None = None
    """When it was last seen to have more than before."""
    excused_s: float | None = None
    """When nobody answered for the last time although the slice worked."""

    def is_due(self, reports: Sequence[WorkerReport], now_s: float) -> bool:
        """Whether the bucket is to be looked at: nobody answers, and the last look is old."""
        is_old = self.looked_s is None or now_s - self.looked_s >= LOOK_EVERY_S
        return is_old and is_silence(reports)

    def look(self, store: Store, job_id: str, attempt: int, now_s: float) -> None:
        """Look how much of the log of an attempt the bucket has. Raises TransientError."""
        ends = {
            source: max(segments.start_of(entry) + entry.size_bytes for entry in entries)
            for source, entries in segments.sources(store, job_id, attempt).items()
        }
        has_grown = any(end > self.ends.get(source, 0) for source, end in ends.items())
        if has_grown and self.looked_s is not None:
            self.grown_s = now_s
        self.looked_s, self.ends = now_s, ends

    def note(self, reports: Sequence[WorkerReport], now_s: float) -> float | None:
        """When silence last said nothing about the workers; None: it always did."""
        is_working = self.grown_s is not None and now_s - self.grown_s <= SIGN_LIFE_S
        if is_working and is_silence(reports):
            self.excused_s = now_s
        return self.excused_s


def is_silence(reports: Sequence[WorkerReport]) -> bool:
    """Whether none of the workers that have not ended answers."""
    awaited = [report for report in reports if not report.closed]
    return bool(awaited) and all(report.unreachable_s > 0 for report in awaited)
