"""The steps that a program's lines tell, with the texts of their values."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tpuctl.jobs.spec.progress_patterns import expression_of
from tpuctl.models.job_log import LogLine
from tpuctl.operations.jobs.bounded_pattern import BoundedPattern, compile_pattern

LINE_CHARACTERS = 4096
"""No more of a line is searched, as the agent does."""
STEP_COUNT_METRIC = "steps"
"""Tells the last step of all; it is not a value of a step."""


@dataclass(frozen=True, slots=True)
class ToldStep:
    """One step of one worker in one attempt."""

    attempt: int
    worker_id: int
    step: int
    time_s: float
    values: Mapping[str, str] = field(default_factory=dict)
    """Metric -> its text, as it was printed."""


@dataclass(frozen=True, slots=True)
class StepLog:
    """Everything that the lines of a run tell about steps."""

    steps: tuple[ToldStep, ...] = ()
    """In the order of each worker's lines; a step that several lines tell is there once."""
    resumed: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """(attempt, worker) -> the step that it says it goes on from."""
    examples: Mapping[tuple[int, int, int], str] = field(default_factory=dict)
    """(attempt, worker, step) -> what it says about the examples that this step read."""

    def of_attempt(self, attempt: int) -> tuple[ToldStep, ...]:
        """The steps of one attempt."""
        return tuple(step for step in self.steps if step.attempt == attempt)

    def workers(self, attempt: int) -> frozenset[int]:
        """The workers that told a step in an attempt."""
        return frozenset(step.worker_id for step in self.of_attempt(attempt))

    def last_step(self, before_attempt: int | None = None) -> int | None:
        """The highest step that any worker told, in attempts before the given one."""
        numbers = [
            step.step
            for step in self.steps
            if before_attempt is None or step.attempt < before_attempt
        ]
        return max(numbers, default=None)


def logged_steps(
    lines: Iterable[LogLine], progress: str | None, examples: str | None = None
) -> StepLog:
    """Read the steps that lines tell, as the agent does, and keep the texts of the values.

    `progress` is that of the job file: the name of a trainer or a regular expression. `examples`
    is a regular expression with the group `examples`, and the group `step` if it has one. Raises
    UsageError when one of them takes too long for a line. Searches belong to the main thread.
    """
    reader = _Reader(_compiled(expression_of(progress)), _compiled(examples))
    for line in lines:
        reader.read(line)
    return reader.step_log()


class _Reader:
    """Goes through lines and remembers the newest step of every worker."""

    def __init__(self, progress: BoundedPattern | None, examples: BoundedPattern | None) -> None:
        self.progress = progress
        self.examples_pattern = examples
        self.values: dict[tuple[int, int, int], tuple[float, dict[str, str]]] = {}
        self.newest: dict[tuple[int, int], int] = {}
        self.resumed: dict[tuple[int, int], int] = {}
        self.examples: dict[tuple[int, int, int], str] = {}

    def read(self, line: LogLine) -> None:
        """Take what one line tells."""
        if line.missing_bytes:
            return
        text = line.text[:LINE_CHARACTERS]
        for said in (_said_plainly(text), _said_by(self.progress, text)):
            self._take(line, dict(said))
        self._take_examples(line, _said_by(self.examples_pattern, text))

    def _take(self, line: LogLine, said: dict[str, str]) -> None:
        source = (line.attempt, line.worker_id)
        step, resumed = said.pop("step", ""), said.pop("resumed", "")
        if is_step(resumed):
            self.resumed[source] = int(resumed)
        if is_step(step):
            self.newest[source] = int(step)
            self.values.setdefault((*source, int(step)), (line.time_s, {}))
        if said and source in self.newest:
            self.values[(*source, self.newest[source])][1].update(said)

    def _take_examples(self, line: LogLine, said: Mapping[str, str]) -> None:
        source = (line.attempt, line.worker_id)
        step = said.get("step", "")
        number = int(step) if is_step(step) else self.newest.get(source)
        if "examples" in said and number is not None:
            self.examples[(*source, number)] = said["examples"]

    def step_log(self) -> StepLog:
        """Everything that was read."""
        steps = tuple(
            ToldStep(attempt, worker, step, time_s, values)
            for (attempt, worker, step), (time_s, values) in self.values.items()
        )
        told = {
            (step.attempt, step.worker_id, step.step): step.values["examples"]
            for step in steps
            if "examples" in step.values
        }
        return StepLog(steps, self.resumed, self.examples or _identities(told))


def _said_plainly(text: str) -> dict[str, str]:
    """What `step=N key=value ...` or `resumed step=N` tells; docs/job-file.md documents both."""
    words = text.split()
    if len(words) > 1 and words[0] == "resumed" and words[1].startswith("step="):
        return {"resumed": words[1].removeprefix("step=")}
    if not words or not words[0].startswith("step=") or not is_step(words[0][5:]):
        return {}
    pairs = (word.partition("=") for word in words if "=" in word)
    values = {key: value for key, _, value in pairs if key != STEP_COUNT_METRIC}
    return {**values, "step": words[0][5:]}


def _said_by(pattern: BoundedPattern | None, text: str) -> dict[str, str]:
    match = pattern.search(text) if pattern else None
    groups = match.groupdict() if match else {}
    return {
        name: value
        for name, value in groups.items()
        if value is not None and name != STEP_COUNT_METRIC
    }


def _compiled(text: str | None) -> BoundedPattern | None:
    return compile_pattern(text) if text else None


def _identities(
    told: Mapping[tuple[int, int, int], str],
) -> Mapping[tuple[int, int, int], str]:
    """Values of a metric `examples` that say which examples were read; not counts of them."""
    return {} if all(is_count(text) for text in told.values()) else told


def is_step(text: str) -> bool:
    """Whether a text is a step number, as the agent reads it: 1 to 15 digits."""
    return re.fullmatch(r"[0-9]{1,15}", text) is not None


def is_count(text: str) -> bool:
    """Whether a text is one whole or decimal number, which cannot name several examples."""
    return re.fullmatch(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?", text) is not None


def numbers_of(steps: Sequence[ToldStep]) -> tuple[int, ...]:
    """The numbers of steps, in order and each once."""
    return tuple(sorted({step.step for step in steps}))
