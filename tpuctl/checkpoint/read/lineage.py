"""The lineage of the newest run: the run whose step it went on from, that one's origin, and so on.

Only what is on it counts. A superseded run may announce late where it goes on, or commit late:
neither is on the lineage, so neither changes what counts (docs/checkpoint-lineage.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tpuctl.checkpoint.format import layout

NO_STEP = -1
NO_FENCE = -1


class Origin(NamedTuple):
    """The step that a run went on from, and the fence of that step's COMMIT; -1 and -1 for none."""

    step: int
    fence: int


NO_ORIGIN = Origin(NO_STEP, NO_FENCE)


class LineageRun(NamedTuple):
    """A run of the lineage, and the last of its steps that is on it."""

    fence: int
    last_step: int


@dataclass(frozen=True)
class Lineage:
    """The runs of a lineage, the newest first."""

    links: tuple[LineageRun, ...]
    unknown_origin_fence: int | None = None
    """The fence of its last link, when nobody knows from where that one went on."""

    def has(self, fence: int, step: int, *, is_exact: bool = True) -> bool:
        """Whether the COMMIT of a step by that fence is on the lineage.

        Not exact: whether one of that fence or any lower one would be.
        """
        return any(
            step <= link.last_step
            and (link.fence == fence or (link.fence < fence and not is_exact))
            for link in self.links
        )

    def may_contain(self, fence: int, step: int) -> bool:
        """Whether a COMMIT may be on the part of the lineage that is not known."""
        return (
            self.unknown_origin_fence is not None
            and fence < self.unknown_origin_fence
            and step <= self.links[-1].last_step
        )


def trace_lineage(newest: int, oldest: int, origin: Callable[[int], Origin | None]) -> Lineage:
    """Follow the origins of runs from fence `newest` back to `oldest`; older runs do not matter.

    `origin` says where the run with a fence went on, None when nobody knows: there the lineage
    ends.
    """
    fence, last_step = newest, layout.LAST_STEP
    links: list[LineageRun] = []
    while fence >= oldest and fence != NO_FENCE:
        links.append(LineageRun(fence, last_step))
        before = origin(fence)
        if before is None:
            return Lineage(tuple(links), unknown_origin_fence=fence)
        fence, last_step = before.fence, min(last_step, before.step)
    return Lineage(tuple(links))


def origin_of(fence: int, step: object, before: object) -> Origin | None:
    """The origin that a record names for the run with that fence; None when it is not valid."""
    if type(step) is not int or type(before) is not int:
        return None
    is_older = NO_FENCE < before < fence and step > NO_STEP
    return Origin(step, before) if is_older or (step, before) == NO_ORIGIN else None


def rollback_of(fence: int, record: Mapping[str, Any]) -> Origin | None:
    """The origin that a ROLLBACK names; None when the record is not that of the fence."""
    if record.get("fence") != fence:
        return None
    return origin_of(fence, record.get("from"), record.get("from_fence"))
