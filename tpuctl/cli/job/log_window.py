"""Log lines of several workers, held back for a moment: merged by time, equal ones told once."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from tpuctl.models.job_log import LogLine

WINDOW_S = 0.15
"""Longer would be seen as a delay; workers in step print the same line within less."""


@dataclass(slots=True)
class LineGroup:
    """A line, and the numbers of the workers that printed it at about the same time."""

    line: LogLine
    workers: list[int]


@dataclass(slots=True)
class LogWindow:
    """The newest lines, held back for grouping; `at` is when one came, on a monotonic clock."""

    window_s: float = WINDOW_S
    workers: int = 0
    """How many print, where that is known: what all of them have printed waits no longer."""
    _pending: list[tuple[LogLine, float]] = field(default_factory=list)

    def add(self, line: LogLine, at: float) -> None:
        """Add a line that came at the time `at`, in seconds."""
        self._pending.append((line, at))

    def ready(self, now: float) -> list[LineGroup]:
        """Take out the groups that are due at the time `now`, and all that belong before them."""
        before = now - self.window_s
        printing = {line.worker_id for line, _ in self._pending}
        if not self._pending or (self._pending[0][1] > before and not self._are_all(printing)):
            return []
        self._pending.sort(key=lambda each: (each[0].attempt, each[0].time_s))
        found, places = group_lines(line for line, _ in self._pending)
        due = [number for number, (_, at) in enumerate(self._pending) if at <= before]
        whole = [place for place, each in enumerate(found) if self._are_all(each.workers)]
        count = max([*places[: due[-1] + 1 if due else 0], *whole], default=-1) + 1
        rest = zip(self._pending, places, strict=True)
        # In the order in which they came, so that the first one is the oldest.
        self._pending = sorted(
            (each for each, place in rest if place >= count), key=lambda each: each[1]
        )
        return found[:count]

    def _are_all(self, workers: Collection[int]) -> bool:
        return 0 < self.workers <= len(workers)

    def rest(self) -> list[LineGroup]:
        """Take out all groups."""
        self._pending.sort(key=lambda each: (each[0].attempt, each[0].time_s))
        found, _ = group_lines(line for line, _ in self._pending)
        self._pending = []
        return found


def group_lines(lines: Iterable[LogLine]) -> tuple[list[LineGroup], list[int]]:
    """Groups of equal lines, and the place of each line's group among them.

    The lines of each worker keep their order.
    """
    found: list[LineGroup] = []
    places: list[int] = []
    newest: dict[tuple[int, str], int] = {}
    reached: dict[int, int] = {}
    for line in lines:
        key = line.attempt, line.text
        place = newest.get(key, -1)
        if place > reached.get(line.worker_id, -1):
            found[place].workers.append(line.worker_id)
        else:
            place = newest[key] = len(found)
            found.append(LineGroup(line, [line.worker_id]))
        reached[line.worker_id] = place
        places.append(place)
    return found, places
