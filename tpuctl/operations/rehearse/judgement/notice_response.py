"""What a program did with the time between SIGTERM and its end."""

from enum import StrEnum

from tpuctl.models.job import Attempt
from tpuctl.operations.rehearse.judgement.observation.object_events import object_writes
from tpuctl.operations.rehearse.judgement.observation.run_facts import RunFacts

FEW_STEPS = 5
"""A program that looks for SIGTERM between steps may be this many further when it ends."""
DELAY_S = 3.0
"""SIGTERM may reach a program this long after the notice: steps until then tell nothing."""
KILLED = 9


class NoticeResponse(StrEnum):
    """What a program does after SIGTERM."""

    SAVED = "saved"
    """It writes below the prefix of its checkpoints, and ends."""
    ENDED = "ended"
    WENT_ON = "went-on"
    """It makes step after step until it is killed or has made its last step."""
    NOTHING_TO_SAVE = "nothing-to-save"
    """It ends, and had made no step since it started."""
    UNKNOWN = "unknown"


def notice_response(facts: RunFacts) -> tuple[NoticeResponse, int]:
    """How the program of a run with a notice responded, and how many steps it told after it."""
    attempt, given_s = noticed_attempt(facts), facts.disturbed_s
    if attempt is None or given_s is None:
        return NoticeResponse.UNKNOWN, 0
    later = [
        step for step in facts.log.of_attempt(attempt.number) if step.time_s > given_s + DELAY_S
    ]
    steps = len({step.step for step in later})
    if _went_on(facts, attempt, later_steps=steps):
        return NoticeResponse.WENT_ON, steps
    ended_s = attempt.ended_s or float("inf")
    saved = any(
        write.complete_s is not None
        and write.name.startswith(facts.reference.layout.prefix)
        and given_s < write.began_s
        and write.complete_s <= ended_s
        for write in object_writes(facts.run.requests)
    )
    if saved:
        return NoticeResponse.SAVED, steps
    has_worked = bool(facts.log.of_attempt(attempt.number))
    return (NoticeResponse.ENDED if has_worked else NoticeResponse.NOTHING_TO_SAVE), steps


def noticed_attempt(facts: RunFacts) -> Attempt | None:
    """The attempt whose workers got the notice: the last that had started by then."""
    attempts = facts.run.job.attempts if facts.run.job else ()
    given_s = facts.disturbed_s
    begun = [
        attempt
        for attempt in attempts
        if given_s is not None and attempt.started_s is not None and attempt.started_s <= given_s
    ]
    return begun[-1] if begun else None


def _went_on(facts: RunFacts, attempt: Attempt, *, later_steps: int) -> bool:
    """Whether it told more steps than one that looks for SIGTERM, until something else ended it."""
    if later_steps <= FEW_STEPS:
        return False
    told = facts.log.of_attempt(attempt.number)
    is_finished = max((step.step for step in told), default=0) == facts.reference.last_step
    is_killed = any(
        report.signal in (KILLED, None) and report.exit_status is None for report in attempt.workers
    )
    return is_finished or is_killed
