"""What `tpuctl doctor` says about one thing: how it is, the evidence, and what mends it."""

from dataclasses import dataclass
from enum import StrEnum


class HealthState(StrEnum):
    """The state of one thing, from the best to the worst."""

    PASS = "pass"
    UNKNOWN = "unknown"
    """It could not be asked: no answer in time, or no permission to ask."""
    WARN = "warn"
    """Work goes on, and something will cost time or money."""
    FAIL = "fail"
    """Some command cannot work before this is mended."""


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """One line of the doctor."""

    name: str
    state: HealthState
    evidence: str
    """What was seen, in one sentence."""
    fix: str | None = None
    """The exact command that mends it, as a person types it in a shell."""
    is_safe: bool = False
    """Whether `--fix` may run that command: it costs nothing, opens nothing and deletes nothing."""
