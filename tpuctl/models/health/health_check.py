"""What `tpuctl doctor` says about one thing: how it is, the evidence, and what mends it."""

from dataclasses import dataclass, field
from enum import StrEnum

from tpuctl.errors import PreconditionError, TpuctlError


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
    error: TpuctlError | None = field(default=None, compare=False, repr=False)
    """What a command that needs the thing fails with, where that is known."""

    @property
    def exit_code(self) -> int:
        """The exit code of the doctor if this is the worst line.

        That of the error; without one, 12 (a precondition failed) for a failure and 0 otherwise.
        """
        if self.error is not None:
            return self.error.exit_code
        return PreconditionError.exit_code if self.state == HealthState.FAIL else 0
