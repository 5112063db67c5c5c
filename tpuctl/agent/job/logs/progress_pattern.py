"""Finds step and metrics in the lines of a program by the job file's `progress`. Python 3.8."""

from __future__ import annotations

import contextlib
import re

from tpuctl.agent.job.logs.step_progress import is_step, parse_number
from tpuctl.bounded_search import BoundedSearch, SearchLimitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LIMIT_S = 1.0
"""Processor time for one line."""
LINE_CHARACTERS = 4096
"""No more of a line is searched."""


class ProgressPattern:
    """A regular expression with the groups `step`, `resumed` and a group for each metric."""

    def __init__(self, text: str, complain: Callable[[str], None]) -> None:
        self.complain = complain
        self.metrics: dict[str, float | str] = {}
        self.pattern: BoundedSearch | None = None
        try:
            self.pattern = BoundedSearch(re.compile(text), LIMIT_S)
        except (re.error, OverflowError, RecursionError) as error:
            self.give_up(f"this Python does not know it: {error}")

    def parse(self, lines: bytes) -> dict[str, Any]:
        """Return `step`, `resume_step` and `metrics` as far as lines say; empty when none does."""
        found: dict[str, Any] = {}
        try:
            with self.pattern or contextlib.nullcontext():
                for line in lines.decode("utf-8", "replace").split("\n"):
                    found.update(self.parse_line(line[:LINE_CHARACTERS]))
        except SearchLimitError:
            self.give_up(f"it takes more than {LIMIT_S:g} s for one line")
        return found

    def parse_line(self, line: str) -> dict[str, Any]:
        """Return what one line says; metrics that it does not name keep their last value."""
        match = self.pattern.search(line) if self.pattern is not None else None
        if match is None:
            return {}
        said = {name: text for name, text in match.groupdict().items() if text is not None}
        steps = {"step": said.pop("step", ""), "resume_step": said.pop("resumed", "")}
        self.metrics = {**self.metrics, **{name: parse_number(said[name]) for name in said}}
        found = {key: int(text) for key, text in steps.items() if is_step(text)}
        return {**found, "metrics": self.metrics}

    def give_up(self, why: str) -> None:
        """Search no further line, and say why in the log."""
        self.pattern = None
        self.complain(f"the expression of `progress` is not used any more: {why}")
