"""The verdict on one disturbed run."""

from collections.abc import Iterable

from tpuctl.models.rehearsal.evidence import RunEvidence
from tpuctl.models.rehearsal.moment import Disturbance, Moment
from tpuctl.models.rehearsal.verdict import Check, Judgement, Verdict
from tpuctl.operations.rehearse.judgement.defect_causes import explain_failure
from tpuctl.operations.rehearse.judgement.observation.history_of_run import history_of_run
from tpuctl.operations.rehearse.judgement.observation.resumptions import Resumption
from tpuctl.operations.rehearse.judgement.observation.run_facts import (
    ReferenceFacts,
    RunFacts,
    run_facts,
)
from tpuctl.operations.rehearse.judgement.run_checks import check_run

SEVERITY = (Judgement.PASS, Judgement.WARN, Judgement.FAIL)
HOUR_S = 3600.0
ESSENTIAL = "came-back"


def judge_moment(moment: Moment, run: RunEvidence, reference: ReferenceFacts) -> Verdict:
    """Judge one disturbed run beside the undisturbed ones."""
    facts = run_facts(moment, run, reference)
    came = _moment_came(facts)
    checks = (came, *check_run(facts))
    judgement = worst_judgement(checks) if came.judgement == Judgement.PASS else came.judgement
    explanation = explain_failure(facts, checks) if judgement == Judgement.FAIL else None
    worst = facts.worst
    return Verdict(
        moment=moment,
        judgement=judgement,
        checks=checks,
        resumed_from=_resumed_from(worst),
        lost_steps=worst.lost_steps if worst else None,
        save_interval_steps=facts.reference.interval_steps,
        recovery_s=_recovery_s(facts),
        cost_usd=_extra_usd(run, reference.runs[0]),
        cause=explanation.cause if explanation else None,
        explanation=explanation.text if explanation else "",
        wall_s=max(run.ended_s - run.began_s, 0.0),
        history=history_of_run(run, facts.log, facts.reference.layout),
    )


def _resumed_from(worst: Resumption | None) -> int | None:
    """The step that it went on from; 0: from the beginning, whatever its first step is called."""
    return max(worst.resumed_from, 0) if worst and worst.resumed_from is not None else None


def worst_judgement(checks: Iterable[Check]) -> Judgement:
    """The worst answer that is known; unknown when it is not known whether the job came back."""
    answers = {check.name: check.judgement for check in checks}
    known = [answer for answer in answers.values() if answer in SEVERITY]
    worst = max(known, key=SEVERITY.index, default=Judgement.UNKNOWN)
    if answers.get(ESSENTIAL) == Judgement.UNKNOWN and worst != Judgement.FAIL:
        return Judgement.UNKNOWN
    return worst


def _moment_came(facts: RunFacts) -> Check:
    """Whether every preemption of the moment, or the first entry of another one, happened."""
    is_preemption = facts.moment.disturbance == Disturbance.PREEMPTION
    wanted = count_entries(facts.moment.timeline) if is_preemption else 1
    fired = len(facts.run.fired)
    if fired >= wanted:
        return Check("disturbed", Judgement.PASS, facts.moment.place or facts.moment.title)
    text = f"{fired} of {wanted} entries of its timeline happened"
    return Check("disturbed", Judgement.UNKNOWN, f"the moment never came: {text}")


def count_entries(entries: Iterable[object]) -> int:
    """How many entries a timeline has, with those that follow others."""
    total = 0
    for entry in entries:
        if isinstance(entry, dict):
            total += 1 + count_entries(entry.get("then", ()))
    return total


def _recovery_s(facts: RunFacts) -> float | None:
    """From the disturbance to the first step that had not been made before it."""
    disturbed_s = facts.disturbed_s
    if disturbed_s is None or not facts.resumptions:
        return None
    last = facts.resumptions[-1]
    later = [
        step.time_s
        for step in facts.log.steps
        if step.attempt >= last.attempt and step.step > (last.frontier or 0)
    ]
    return max(min(later) - disturbed_s, 0.0) if later else None


def _extra_usd(run: RunEvidence, reference: RunEvidence) -> float | None:
    """What the slices were READY for longer than in the undisturbed run, at list price."""
    if run.job is None or run.job.usd_per_hour is None or reference.job is None:
        return None
    longer_s = _ready_s(run) - _ready_s(reference)
    return max(longer_s, 0.0) / HOUR_S * run.job.usd_per_hour


def _ready_s(run: RunEvidence) -> float:
    """For how long slices were READY, each once."""
    attempts = run.job.attempts if run.job else ()
    spans: dict[str, tuple[float, float]] = {}
    for attempt in attempts:
        if attempt.ready_s is None:
            continue
        end_s = attempt.deleted_s or attempt.ended_s or run.ended_s
        began_s, last_s = spans.get(attempt.node, (attempt.ready_s, end_s))
        spans[attempt.node] = (min(began_s, attempt.ready_s), max(last_s, end_s))
    return sum(end_s - began_s for began_s, end_s in spans.values())
