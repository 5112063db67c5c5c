"""Which defect of a program explains a run that failed; docs/rehearse.md describes each cause."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tpuctl.models.rehearsal.verdict import Cause, Check, Judgement
from tpuctl.operations.rehearse.judgement.observation.deterministic_values import ValueDifference
from tpuctl.operations.rehearse.judgement.observation.object_events import object_writes
from tpuctl.operations.rehearse.judgement.observation.resumptions import Resumption, SaveState
from tpuctl.operations.rehearse.judgement.observation.run_facts import RunFacts

STATE_CHECKS = frozenset(
    {"came-back", "resumed-from", "lost-steps", "workers", "values", "steps-once", "examples"}
)
"""Checks that fail when a program comes back with a wrong state, or not at all."""
EARLY_MARKERS = (
    Cause.MARKER_BEFORE_OTHER_WORKERS,
    Cause.MARKER_BEFORE_DATA,
    Cause.NOT_DURABLE,
)


class DefectExplanation(NamedTuple):
    """A cause and the sentence that shows it."""

    cause: Cause
    text: str


class FailedRun(NamedTuple):
    """A run and the names of the checks that failed."""

    facts: RunFacts
    checks: frozenset[str]


def explain_failure(facts: RunFacts, checks: tuple[Check, ...]) -> DefectExplanation | None:
    """The defect that explains the checks that failed; None: the evidence shows none.

    What the saves were when the program began again comes first, then how the workers began, then
    what became of the values: a later one can be the effect of an earlier one.
    """
    failed = frozenset(check.name for check in checks if check.judgement == Judgement.FAIL)
    if failed & STATE_CHECKS and facts.resumptions:
        for rule in STATE_RULES:
            if (explanation := rule(FailedRun(facts, failed))) is not None:
                return explanation
    if "notice" in failed:
        text = next(check.evidence for check in checks if check.name == "notice")
        return DefectExplanation(Cause.IGNORES_SIGTERM, text)
    return None


def _early_marker(failed: FailedRun) -> DefectExplanation | None:
    """A save was marked complete and was not whole when the program began again."""
    facts = failed.facts
    for resumed, save in _incomplete_saves(facts):
        if not save.has_marker or _was_whole(save):
            continue
        cause = _early_marker_cause(facts)
        missing = ", ".join(save.missing)
        text = f"the save of {_step(save)} had its marker but not {missing}"
        return DefectExplanation(cause, f"{text}, when attempt {resumed.attempt} began")
    return None


def _early_marker_cause(facts: RunFacts) -> Cause:
    """The order in the undisturbed run tells which, or whose upload was under way when it ended."""
    suspected = [found.cause for found in facts.reference.order if found.cause in EARLY_MARKERS]
    if suspected:
        return suspected[0]
    unfinished = any(write.complete_s is None for write in object_writes(facts.run.requests))
    return Cause.NOT_DURABLE if unfinished else Cause.MARKER_BEFORE_DATA


def _was_whole(save: SaveState) -> bool:
    """Whether what is missing of a save was deleted on purpose, as old saves are."""
    return bool(save.deleted)


def _suspected(*causes: Cause) -> Callable[[FailedRun], DefectExplanation | None]:
    """A rule for what the order of requests in the undisturbed run has shown."""

    def rule(failed: FailedRun) -> DefectExplanation | None:
        found = (finding for finding in failed.facts.reference.order if finding.cause in causes)
        return next((DefectExplanation(finding.cause, finding.text) for finding in found), None)

    return rule


def _suspected_of_incomplete(failed: FailedRun) -> DefectExplanation | None:
    """An order that leaves saves incomplete, where a save was incomplete as the program began."""
    if next(_incomplete_saves(failed.facts), None) is None:
        return None
    causes = (Cause.TORN_MARKER, *EARLY_MARKERS, Cause.DELETES_OLD_STEP_FIRST)
    return _suspected(*causes)(failed)


def _torn_marker(failed: FailedRun) -> DefectExplanation | None:
    """The marker had been written, but not as often as it is in a whole save."""
    facts = failed.facts
    usual = max((len(save.marker_writes) for save in facts.reference.layout.saves), default=0)
    if usual < 2:
        return None
    for resumed in facts.resumptions:
        newest = resumed.saves[-1] if resumed.saves else None
        if newest is not None and newest.marker_writes % usual > 0:
            found = _suspected(Cause.TORN_MARKER)(failed)
            text = f"only {newest.marker_writes % usual} of {usual} parts were there"
            return found and DefectExplanation(found.cause, f"{found.text}; {text}")
    return None


def _deleted_first(failed: FailedRun) -> DefectExplanation | None:
    """No save was whole when the program began again, and one had been deleted."""
    facts = failed.facts
    for resumed in facts.resumptions:
        deleted = [save for save in resumed.saves if save.deleted]
        if resumed.has_lost_every_save:
            text = f"{_step(deleted[-1])} was deleted before the next save was whole"
            return DefectExplanation(Cause.DELETES_OLD_STEP_FIRST, f"the save of {text}")
    return None


def _workers_disagree(failed: FailedRun) -> DefectExplanation | None:
    """Workers went on from different steps, or not all of them went on."""
    facts = failed.facts
    if "workers" not in failed.checks:
        return None
    expected = len(facts.reference.log.workers(1))
    for resumed in facts.resumptions:
        starts = {step for _, step in resumed.first_steps}
        if len(starts) > 1 or len(resumed.first_steps) < expected:
            told = ", ".join(f"worker {worker} at {step}" for worker, step in resumed.first_steps)
            text = f"attempt {resumed.attempt} began with {told or 'no worker'}"
            return DefectExplanation(Cause.WORKERS_DISAGREE, f"{text}, of {expected} workers")
    return None


def _incomplete_save(failed: FailedRun) -> DefectExplanation | None:
    """The program read a save that was not whole and had no marker."""
    facts = failed.facts
    for resumed, save in _incomplete_saves(facts):
        is_read = save.step is not None and save.step in resumed.read_steps
        is_used = save.step is not None and resumed.resumed_from == save.step
        if not _was_whole(save) and (is_read or is_used):
            text = f"attempt {resumed.attempt} read the save of {_step(save)}, which lacked"
            return DefectExplanation(
                Cause.RESUMES_INCOMPLETE_SAVE, f"{text} {', '.join(save.missing)}"
            )
    return None


def _never_resumes(failed: FailedRun) -> DefectExplanation | None:
    """It began from the first step although a save was whole, and read none."""
    facts = failed.facts
    for resumed in facts.resumptions:
        if (step := resumed.forgotten_step) is not None:
            text = f"attempt {resumed.attempt} began from the first step although step {step}"
            return DefectExplanation(Cause.NEVER_RESUMES, f"{text} was whole")
    return None


def _data_order(failed: FailedRun) -> DefectExplanation | None:
    """After the resume it read the examples that the job begins with."""
    facts = failed.facts
    expected = facts.reference.log.examples
    for resumed in facts.resumptions:
        for worker, first in resumed.first_steps:
            text = facts.log.examples.get((resumed.attempt, worker, first))
            beginning = _first_examples(facts, worker)
            if text and text == beginning and text != expected.get((1, worker, first)):
                told = (
                    f"step {first} of worker {worker} read {text}, the examples of the first step"
                )
                return DefectExplanation(Cause.DATA_ORDER_RESTARTS, told)
    return None


def _first_examples(facts: RunFacts, worker: int) -> str | None:
    steps = {
        step: text
        for (_, each, step), text in facts.reference.log.examples.items()
        if each == worker
    }
    return steps[min(steps)] if steps else None


def _wrong_from_second(failed: FailedRun) -> DefectExplanation | None:
    """The first step after the resume is right and later ones are not: its update is wrong."""
    facts = failed.facts
    for resumed, wrong in _wrong_after(facts):
        firsts = dict(resumed.first_steps)
        right = _is_compared(facts, resumed) and all(
            difference.step > firsts[difference.worker_id] for difference in wrong
        )
        if right and "examples" not in failed.checks:
            step = min(firsts.values())
            text = f"step {step}, the first after the resume, is right, and {_told(wrong[0])}"
            return DefectExplanation(Cause.OPTIMIZER_NOT_SAVED, text)
    return None


def _wrong_from_first(failed: FailedRun) -> DefectExplanation | None:
    """The examples are right and the first step is not: something random entered it.

    A program that does not say which examples it reads may as well have read others.
    """
    facts = failed.facts
    if not facts.reference.log.examples or "examples" in failed.checks:
        return None
    for resumed, wrong in _wrong_after(facts):
        firsts = dict(resumed.first_steps)
        is_next = (
            resumed.resumed_from is not None and min(firsts.values()) <= resumed.resumed_from + 1
        )
        if is_next and wrong[0].step == firsts[wrong[0].worker_id]:
            text = f"it read the right examples after the resume, and {_told(wrong[0])}"
            return DefectExplanation(Cause.RANDOM_STATE_NOT_SAVED, text)
    return None


def _wrong_after(facts: RunFacts) -> Iterator[tuple[Resumption, list[ValueDifference]]]:
    """Every resumption with the differing values that followed; those that have any."""
    known = {step.step for step in facts.log.steps}
    for resumed in facts.resumptions:
        firsts = dict(resumed.first_steps)
        wrong = [
            difference
            for difference in facts.differences
            if difference.metric not in facts.reference.values.counters
            and difference.step >= firsts.get(difference.worker_id, max(known, default=0) + 1)
        ]
        if wrong:
            yield resumed, wrong


def _is_compared(facts: RunFacts, resumed: Resumption) -> bool:
    """Whether the first step of every worker after the resume has a value to compare."""
    texts = facts.reference.values.texts
    return all(texts.get((worker, step)) for worker, step in resumed.first_steps)


def _incomplete_saves(facts: RunFacts) -> Iterator[tuple[Resumption, SaveState]]:
    """The newest save at every resumption that was not whole, the newest first."""
    for resumed in facts.resumptions:
        for save in reversed(resumed.saves):
            if not save.is_whole:
                yield resumed, save


def _step(save: SaveState) -> str:
    return "a step that its names do not tell" if save.step is None else f"step {save.step}"


def _told(difference: ValueDifference) -> str:
    value = f"{difference.metric}={difference.text}, not {difference.expected}"
    return f"step {difference.step} of worker {difference.worker_id} has {value}"


STATE_RULES: tuple[Callable[[FailedRun], DefectExplanation | None], ...] = (
    _torn_marker,
    _early_marker,
    _deleted_first,
    _suspected(Cause.SAME_OBJECT_FROM_SEVERAL_WORKERS),
    _workers_disagree,
    _incomplete_save,
    _never_resumes,
    _data_order,
    _wrong_from_second,
    _wrong_from_first,
    _suspected_of_incomplete,
)
"""In this order; the first that explains the failure counts."""
