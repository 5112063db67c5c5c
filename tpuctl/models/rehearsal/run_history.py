"""When what happened in one run of a rehearsal; the field names are keys of its JSON.

All times are seconds since the job was submitted.
"""

from dataclasses import dataclass

from tpuctl.models.job import AttemptOutcome


@dataclass(frozen=True, slots=True)
class AttemptSpan:
    """One attempt of the job, from the request for its slice to its end."""

    number: int
    zone: str
    requested_s: float
    provisioning_s: float | None = None
    """When its slice began to be made."""
    ready_s: float | None = None
    """When all of its workers were there, and their preparation began."""
    started_s: float | None = None
    """When its programs started."""
    ended_s: float | None = None
    outcome: AttemptOutcome | None = None


@dataclass(frozen=True, slots=True)
class LoggedStep:
    """The first line of an attempt, of whichever worker, that says a step."""

    attempt: int
    step: int
    time_s: float


@dataclass(frozen=True, slots=True)
class SaveSpan:
    """One save of the program, from the first byte of its first object on."""

    began_s: float
    step: int | None = None
    """The step that it holds; None: its objects do not say it."""
    complete_s: float | None = None
    """When its last object was there; None: it never was complete."""


@dataclass(frozen=True, slots=True)
class FiredDisturbance:
    """An entry of the timeline that happened in the run."""

    name: str
    time_s: float


@dataclass(frozen=True, slots=True)
class RunHistory:
    """What a picture of a run is drawn from."""

    ended_s: float
    """When all had ended and was collected."""
    attempts: tuple[AttemptSpan, ...] = ()
    steps: tuple[LoggedStep, ...] = ()
    """In the order of time; of a long run some of them, the first and last of each attempt among
    them."""
    saves: tuple[SaveSpan, ...] = ()
    restores_s: tuple[float, ...] = ()
    """When each attempt that reads a save first reads below the prefix of the saves."""
    disturbances: tuple[FiredDisturbance, ...] = ()
