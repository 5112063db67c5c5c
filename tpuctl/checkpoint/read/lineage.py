"""The line of the newest run: the step it went on from, the one that one's run went on from, ...

Only what is on it counts. A run that was superseded before it said from where it goes on may say
so later, and a zombie may commit later: neither is on the line, so neither changes what counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tpuctl.checkpoint.format import layout

NO_STEP = -1
NO_FENCE = -1


class Origin(NamedTuple):
    """Where a run went on: the step and the fence of its COMMIT, -1 for none."""

    step: int
    fence: int


NO_ORIGIN = Origin(NO_STEP, NO_FENCE)


class LineageRun(NamedTuple):
    """A run of the line, and the last of its steps that is on it."""

    fence: int
    last_step: int


@dataclass(frozen=True)
class Lineage:
    """Newest run first."""

    links: tuple[LineageRun, ...]
    unknown_origin_fence: int | None = None
    """The fence of its last link, when nobody knows from where that one went on."""

    def has(self, fence: int, step: int, *, is_exact: bool = True) -> bool:
        """Whether a COMMIT is on it; when not exact, whether one of that fence or below is."""
        return any(
            step <= link.last_step
            and (link.fence == fence or (link.fence < fence and not is_exact))
            for link in self.links
        )

    def may_contain(self, fence: int, step: int) -> bool:
        """Whether a COMMIT that is not on the known part may be on the rest."""
        return (
            self.unknown_origin_fence is not None
            and fence < self.unknown_origin_fence
            and step <= self.links[-1].last_step
        )


def trace_lineage(newest: int, oldest: int, origin: Callable[[int], Origin | None]) -> Lineage:
    """Follow the origins of runs back, from the newest fence to the oldest that matters."""
    fence, last_step = newest, layout.LAST_STEP
    links: list[LineageRun] = []
    while fence >= oldest and fence != NO_FENCE:
        links.append(LineageRun(fence, last_step))
        found = origin(fence)
        if found is None:
            return Lineage(tuple(links), unknown_origin_fence=fence)
        fence, last_step = found.fence, min(last_step, found.step)
    return Lineage(tuple(links))


def origin_of(fence: int, step: object, before: object) -> Origin | None:
    """Where a record says that the run with that fence went on; None when it makes no sense."""
    if type(step) is not int or type(before) is not int:
        return None
    is_older = NO_FENCE < before < fence and step > NO_STEP
    return Origin(step, before) if is_older or (step, before) == NO_ORIGIN else None


def rollback_of(fence: int, record: Mapping[str, Any]) -> Origin | None:
    """What a ROLLBACK says; None when it is not that of the fence."""
    if record.get("fence") != fence:
        return None
    return origin_of(fence, record.get("from"), record.get("from_fence"))
