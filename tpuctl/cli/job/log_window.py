"""Log lines of several workers, held back for a moment: merged by time, equal ones told once."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tpuctl.models.job import LogLine

WINDOW_S = 0.15
"""Longer would be seen as a delay; workers in step print the same line within less."""


@dataclass(slots=True)
class LineGroup:
    """A line, and the workers that printed it at about the same time."""

    line: LogLine
    workers: list[int]


@dataclass(slots=True)
class LogWindow:
    """The lines of the last moment; `at` is when they came, on any clock that goes forward."""

    window_s: float = WINDOW_S
    workers: int = 0
    """How many print, where that is known: what all of them have printed waits no longer."""
    _pending: list[tuple[LogLine, float]] = field(default_factory=list)

    def add(self, line: LogLine, at: float) -> None:
        """One more line."""
        self._pending.append((line, at))

    def ready(self, now: float) -> list[LineGroup]:
        """What has been here for long enough, with everything that belongs before it."""
        before = now - self.window_s
        if not self._pending or (self._pending[0][1] > before and not self._may_be_whole()):
            return []
        self._pending.sort(key=lambda each: (each[0].attempt, each[0].time_s))
        found, places = group_lines(line for line, _ in self._pending)
        due = [number for number, (_, at) in enumerate(self._pending) if at <= before]
        whole = [place for place, each in enumerate(found) if self._is_whole(each)]
        count = max([*places[: due[-1] + 1 if due else 0], *whole], default=-1) + 1
        rest = zip(self._pending, places, strict=True)
        # In the order in which they came, so that the first one is the oldest.
        self._pending = sorted(
            (each for each, place in rest if place >= count), key=lambda each: each[1]
        )
        return found[:count]

    def _may_be_whole(self) -> bool:
        return 0 < self.workers <= len({line.worker_id for line, _ in self._pending})

    def _is_whole(self, group: LineGroup) -> bool:
        return 0 < self.workers <= len(group.workers)

    def rest(self) -> list[LineGroup]:
        """Everything, at the end."""
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
