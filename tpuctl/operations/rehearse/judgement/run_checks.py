"""The questions that a disturbed run answers; docs/rehearse.md says what each means."""

from collections.abc import Callable, Sequence

from tpuctl.models.job import AttemptOutcome, JobState
from tpuctl.models.rehearsal.moment import Disturbance
from tpuctl.models.rehearsal.verdict import Check, Judgement
from tpuctl.operations.rehearse.judgement.notice_response import NoticeResponse, notice_response
from tpuctl.operations.rehearse.judgement.observation.deterministic_values import (
    ValueDifference,
    is_rounding,
)
from tpuctl.operations.rehearse.judgement.observation.logged_steps import numbers_of
from tpuctl.operations.rehearse.judgement.observation.resumptions import Resumption
from tpuctl.operations.rehearse.judgement.observation.run_facts import RunFacts

PASS, WARN, FAIL, UNKNOWN = Judgement.PASS, Judgement.WARN, Judgement.FAIL, Judgement.UNKNOWN
OUT_OF_TIME = 41
"""The exit code of a wait whose time was over."""
STALL_S = 30.0
"""A run that made no step for so long before its time was over does not come back."""
FEW_ROUNDINGS = 0.25
"""Up to this share of values that differ in the last digit is taken for another order of sums."""

Answer = tuple[Judgement, str]


def check_run(facts: RunFacts) -> tuple[Check, ...]:
    """Answer every question about a run that its moment and its evidence allow."""
    answers = ((name, question(facts)) for name, question in QUESTIONS)
    return tuple(Check(name, *answer) for name, answer in answers if answer is not None)


def _came_back(facts: RunFacts) -> Answer:
    run = facts.run
    if run.job is None:
        return UNKNOWN, f"the job was not accepted: {run.error or 'no reason is known'}"
    if run.job.state == JobState.SUCCEEDED:
        return PASS, f"the job succeeded in {len(run.job.attempts)} attempts"
    if run.exit_code != OUT_OF_TIME:
        return FAIL, f"the job is {run.job.state}: {run.job.status_text}"
    silence_s = _silence_s(facts)
    if silence_s > STALL_S:
        return FAIL, f"no step was made in the last {silence_s:.0f} s of the run"
    return UNKNOWN, "the time of the run was over while the job still made steps"


def _silence_s(facts: RunFacts) -> float:
    last_s = max((step.time_s for step in facts.log.steps), default=facts.run.began_s)
    return facts.run.ended_s - last_s


def _resumed_from(facts: RunFacts) -> Answer | None:
    worst = facts.worst
    if worst is None:
        return None
    if worst.resumed_from is None:
        return UNKNOWN, f"attempt {worst.attempt} told no step"
    if worst.forgotten_step is not None:
        return FAIL, f"it began again although the save of step {worst.forgotten_step} was whole"
    if worst.resumed_from <= 0 and worst.has_lost_every_save:
        return FAIL, "it began again: the saves before were deleted, and the next was not whole"
    if worst.resumed_from <= 0:
        return PASS, f"attempt {worst.attempt} began again: no save past step 0 was whole"
    return PASS, f"attempt {worst.attempt} went on from step {worst.resumed_from}"


def _lost_steps(facts: RunFacts) -> Answer | None:
    worst = facts.worst
    if worst is None or worst.lost_steps is None or worst.resumed_from is None:
        return None
    interval = facts.reference.interval_steps
    lost = f"{worst.lost_steps} steps were made again"
    if interval is None:
        return UNKNOWN, f"{lost}; the names of the saves do not tell how far apart they are"
    if worst.lost_steps <= interval + 1:
        return PASS, f"{lost}, saves are {interval} steps apart"
    return _lost_many(worst, interval, lost)


def _lost_many(worst: Resumption, interval: int, lost: str) -> Answer:
    """A save may be under way while the job is disturbed, so one save less is a warning."""
    newest = max(worst.whole_steps, default=None)
    if newest is not None and (worst.resumed_from or 0) >= newest - 1:
        return PASS, f"{lost}: the newest whole save was that of step {newest}"
    if (worst.lost_steps or 0) <= 2 * interval + 1:
        return WARN, f"{lost}, more than the {interval} steps between two saves"
    return FAIL, f"{lost}, although saves are {interval} steps apart"


def _values(facts: RunFacts) -> Answer:
    reference = facts.reference
    if not reference.values.metrics:
        return UNKNOWN, "no metric has the same values in two undisturbed runs"
    names = ", ".join(reference.values.metrics)
    compared = {(step.worker_id, step.step) for step in facts.log.steps} & set(
        reference.values.texts
    )
    if not compared:
        return UNKNOWN, "the run tells no step that the undisturbed run tells"
    unstable = {difference.metric for difference in facts.early_differences}
    known = [each for each in facts.differences if each.metric not in unstable]
    counts = [each for each in known if each.metric in reference.values.counters]
    wrong = [each for each in known if each not in counts]
    if wrong:
        return _wrong_values(wrong, len(compared))
    if counts:
        return (
            WARN,
            f"{counts[0].metric} counts from the start again after the resume: {_told(counts[0])}",
        )
    if unstable >= set(reference.values.metrics):
        return UNKNOWN, f"{', '.join(sorted(unstable))} differed before anything was resumed"
    return PASS, f"{len(compared)} steps have the reference's {names}"


def _wrong_values(wrong: Sequence[ValueDifference], compared: int) -> Answer:
    if all(map(is_rounding, wrong)) and len(wrong) <= FEW_ROUNDINGS * compared:
        text = "values differ by one in the last digit, as sums in another order do"
        return UNKNOWN, f"{len(wrong)} {text}: {_told(wrong[0])}"
    return FAIL, f"{len(wrong)} values differ from the reference, the first: {_told(wrong[0])}"


def _told(difference: ValueDifference) -> str:
    place = f"step {difference.step} of worker {difference.worker_id}"
    return f"{place} has {difference.metric}={difference.text}, not {difference.expected}"


def _workers(facts: RunFacts) -> Answer | None:
    """Whether the workers went on together, and all of them did."""
    if not facts.resumptions:
        return None
    expected = facts.reference.log.workers(1)
    for resumed in facts.resumptions:
        absent = sorted(expected - {worker for worker, _ in resumed.first_steps})
        if resumed.first_steps and absent and _is_finished(facts, resumed):
            return FAIL, f"worker {absent[0]} told no step in attempt {resumed.attempt}"
        told = _starts(facts, resumed)
        if len(set(told.values())) > 1:
            shown = ", ".join(f"worker {worker} {step}" for worker, step in sorted(told.items()))
            return (
                FAIL,
                f"workers went on from different steps in attempt {resumed.attempt}: {shown}",
            )
    return PASS, f"all {len(expected)} workers went on from the same step"


def _is_finished(facts: RunFacts, resumed: Resumption) -> bool:
    """Whether an attempt made the last step, so that every worker had the time to tell one."""
    steps = facts.log.of_attempt(resumed.attempt)
    return max((step.step for step in steps), default=0) == facts.reference.last_step


def _starts(facts: RunFacts, resumed: Resumption) -> dict[int, int]:
    """Worker -> the step that it went on from, of the workers that tell."""
    told = {
        worker: step
        for (attempt, worker), step in facts.log.resumed.items()
        if attempt == resumed.attempt
    }
    return told or {worker: step - 1 for worker, step in resumed.first_steps}


def _steps_once(facts: RunFacts) -> Answer:
    """Every step after the resumed one is made by every worker, and none beyond the last."""
    if not facts.reference.same_steps:
        return UNKNOWN, "two undisturbed runs tell different steps"
    expected = {(step.worker_id, step.step) for step in facts.reference.log.steps}
    made = {(step.worker_id, step.step) for step in facts.log.steps}
    extra, missing = sorted(made - expected), _missing(facts, expected - made)
    if extra and len(expected & made) < len(made) / 2:
        return UNKNOWN, "it tells other steps than the undisturbed run"
    if extra:
        return (
            FAIL,
            f"worker {extra[0][0]} made step {extra[0][1]}, which the reference does not have",
        )
    if missing:
        return FAIL, f"worker {missing[0][0]} left out step {missing[0][1]}"
    steps = numbers_of(facts.log.steps)
    return PASS, f"{len(steps)} steps, and none left out or made beyond the last"


def _missing(facts: RunFacts, absent: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """Steps that were not made, without those whose lines may have died with a worker.

    Lines are lost for certain only where a later attempt began after them.
    """
    known_to = max((each.resumed_from or 0 for each in facts.resumptions), default=0)
    ended = facts.log.workers(facts.log.steps[-1].attempt) if facts.log.steps else frozenset()
    is_over = facts.run.job is not None and facts.run.job.state == JobState.SUCCEEDED
    return sorted(
        (worker, step) for worker, step in absent if is_over and step > known_to and worker in ended
    )


def _examples(facts: RunFacts) -> Answer | None:
    expected = {
        (worker, step): text for (_, worker, step), text in facts.reference.log.examples.items()
    }
    if not expected:
        return UNKNOWN, "the program does not say which examples it reads"
    latest: dict[tuple[int, int], str] = {}
    for (_, worker, step), text in sorted(facts.log.examples.items()):
        latest[(worker, step)] = text
    wrong = sorted(
        (step, worker)
        for (worker, step), text in latest.items()
        if expected.get((worker, step), text) != text
    )
    if wrong and not _examples_repeat(facts):
        return UNKNOWN, "two undisturbed runs read different examples"
    if wrong:
        step, worker = wrong[0]
        return FAIL, (
            f"step {step} of worker {worker} read {latest[(worker, step)]},"
            f" not {expected[(worker, step)]}"
        )
    return PASS, f"{len(latest)} steps read the examples of the reference"


def _examples_repeat(facts: RunFacts) -> bool:
    """Whether the steps before the first resumption read the reference's examples."""
    first = facts.resumptions[0].attempt if facts.resumptions else None
    expected = facts.reference.log.examples
    return (
        all(
            expected.get((1, worker, step), text) == text
            for (attempt, worker, step), text in facts.log.examples.items()
            if first is not None and attempt < first
        )
        and facts.reference.examples_agree
    )


def _checkpoint(facts: RunFacts) -> Answer | None:
    found = facts.run.checkpoint
    if found is None:
        return None
    if not found.format:
        return UNKNOWN, found.problem or "the format of the checkpoints is not known"
    newest = max(found.good_steps, default=None)
    if found.bad_steps and (newest is None or max(found.bad_steps) > newest):
        return FAIL, f"step {max(found.bad_steps)} is not whole: {found.problem}"
    if newest is None:
        return UNKNOWN, found.problem or "there is no step to verify"
    if found.bad_steps:
        return WARN, f"step {max(found.bad_steps)} is not whole, and step {newest} after it is"
    return PASS, f"step {newest} is whole ({found.format})"


NOTICE_ANSWERS = {
    NoticeResponse.SAVED: (PASS, "it saved and ended after SIGTERM"),
    NoticeResponse.ENDED: (WARN, "it ended after SIGTERM without a save"),
    NoticeResponse.WENT_ON: (FAIL, "it went on after SIGTERM as if nothing had come"),
    NoticeResponse.NOTHING_TO_SAVE: (PASS, "it ended after SIGTERM, before its first step"),
    NoticeResponse.UNKNOWN: (UNKNOWN, "the run does not show what it did after SIGTERM"),
}


def _notice(facts: RunFacts) -> Answer | None:
    if not facts.moment.notice_s:
        return None
    response, steps = notice_response(facts)
    judgement, text = NOTICE_ANSWERS[response]
    return judgement, f"{text}; {steps} steps were told after it"


def _slice_kept(facts: RunFacts) -> Answer | None:
    """A job that only cannot be seen is left alone."""
    if facts.moment.disturbance not in (Disturbance.UNREACHABLE, Disturbance.SUPERVISOR_KILLED):
        return None
    attempts = facts.run.job.attempts if facts.run.job else ()
    if len(attempts) > 1:
        outcome = attempts[0].outcome or AttemptOutcome.LOST
        return FAIL, f"attempt 1 was ended as {outcome} although its workers ran on"
    return PASS, "the job's slice and programs were left alone"


def _leftovers(facts: RunFacts) -> Answer:
    found = facts.run.leftovers
    if found:
        return FAIL, f"still there after the end: {', '.join(found)}"
    return PASS, "nothing is left"


def _exit(facts: RunFacts) -> Answer | None:
    if facts.run.job is None or facts.run.exit_code == OUT_OF_TIME:
        return None
    is_good = facts.run.job.state == JobState.SUCCEEDED
    if is_good == (facts.run.exit_code == 0):
        return PASS, f"`tpuctl job wait` returned {facts.run.exit_code}"
    return FAIL, f"`tpuctl job wait` returned {facts.run.exit_code} for {facts.run.job.state}"


QUESTIONS: tuple[tuple[str, Callable[[RunFacts], Answer | None]], ...] = (
    ("came-back", _came_back),
    ("resumed-from", _resumed_from),
    ("lost-steps", _lost_steps),
    ("workers", _workers),
    ("values", _values),
    ("steps-once", _steps_once),
    ("examples", _examples),
    ("checkpoint", _checkpoint),
    ("notice", _notice),
    ("slice-kept", _slice_kept),
    ("leftovers", _leftovers),
    ("exit", _exit),
)
"""Name of a check, public -> what answers it; None: the question does not arise."""
