"""What the undisturbed runs show of a job before any moment is tried."""

import re
from collections.abc import Callable
from typing import NamedTuple

from tpuctl.models.job import JobState
from tpuctl.models.rehearsal.verdict import Cause, Check, Judgement, ReferenceVerdict
from tpuctl.operations.rehearse.judgement.observation.history_of_run import history_of_run
from tpuctl.operations.rehearse.judgement.observation.object_events import object_writes
from tpuctl.operations.rehearse.judgement.observation.run_facts import ReferenceFacts
from tpuctl.operations.rehearse.judgement.run_checks import OUT_OF_TIME

PASS, WARN, FAIL, UNKNOWN = Judgement.PASS, Judgement.WARN, Judgement.FAIL, Judgement.UNKNOWN
TPU_ERRORS = re.compile(
    r"Unable to initialize backend 'tpu'|No TPU (devices|platform|is)|libtpu\.so|"
    r"Failed to (get|initialize) .*TPU|TPU (initialization|platform).*(failed|not found)|"
    r"open\(/dev/(accel|vfio)",
    re.IGNORECASE,
)
"""What programs print that find no TPU."""
MEMORY_ERRORS = re.compile(r"MemoryError|Cannot allocate memory|Out of memory|std::bad_alloc")
LOCAL_SAVE = re.compile(
    r"\b(sav(ed?|ing)|wr(ote|iting)|checkpoint(ed|ing)?)\b[^\n]*?\s(/[\w./-]{3,})", re.IGNORECASE
)
"""A line that says that something was saved at an absolute path of the worker."""


class Limits(NamedTuple):
    """What a rehearsal has: None where it is not limited."""

    memory_bytes: int | None = None
    """The memory of this machine that runs may use."""
    time_s: float | None = None
    """The time for all runs together."""
    moments: int = 40
    """About how many runs follow."""
    side_by_side: int = 1


UNLIMITED = Limits()


class ReferenceFinding(NamedTuple):
    """An answer, its evidence and, where it says one, the defect."""

    judgement: Judgement
    evidence: str
    cause: Cause | None = None


def judge_reference(facts: ReferenceFacts, limits: Limits = UNLIMITED) -> ReferenceVerdict:
    """Judge one or two undisturbed runs."""
    answers = [(name, question(facts)) for name, question in QUESTIONS]
    answers += [(name, question(facts, limits)) for name, question in LIMIT_QUESTIONS]
    asked = [(name, answer) for name, answer in answers if answer is not None]
    worst = max((answer.judgement for _, answer in asked), key=SEVERITY.index)
    reason = next((answer for _, answer in asked if answer.judgement == worst), None)
    first = facts.runs[0]
    return ReferenceVerdict(
        judgement=worst,
        checks=tuple(Check(name, answer.judgement, answer.evidence) for name, answer in asked),
        cause=reason.cause if reason and worst in (WARN, FAIL) else None,
        explanation=reason.evidence if reason and worst in (WARN, FAIL) else "",
        steps=facts.last_step or 0,
        saves=len(facts.layout.saves),
        save_interval_steps=facts.interval_steps,
        prefix=facts.prefix_url,
        wall_s=max(first.ended_s - first.began_s, 0.0),
        history=history_of_run(first, facts.log, facts.layout),
    )


SEVERITY = (PASS, UNKNOWN, WARN, FAIL)


def _ends(facts: ReferenceFacts) -> ReferenceFinding:
    run = facts.runs[0]
    if run.job is None:
        return ReferenceFinding(
            FAIL, f"the job was not accepted: {run.error or 'no reason is known'}"
        )
    if run.job.state == JobState.SUCCEEDED:
        return ReferenceFinding(PASS, "the job succeeds when nothing disturbs it")
    if run.exit_code == OUT_OF_TIME:
        steps = facts.last_step or 0
        return ReferenceFinding(
            FAIL, f"the job is too slow: it made {steps} steps in the time of a run"
        )
    for pattern, text in FAILURES:
        line = next((line.text for line in run.lines if pattern.search(line.text)), None)
        if line is not None:
            return ReferenceFinding(FAIL, f"{text}: {line.strip()[:200]}")
    return ReferenceFinding(
        FAIL, f"the job is {run.job.state} although nothing disturbs it: {run.job.why}"
    )


FAILURES = (
    (TPU_ERRORS, "the program needs a real TPU"),
    (MEMORY_ERRORS, "the program needs more memory than there is"),
)
"""What a line of a failed run says, and the words for it."""


def _tells_steps(facts: ReferenceFacts) -> ReferenceFinding:
    if facts.log.steps:
        workers = len({step.worker_id for step in facts.log.steps})
        return ReferenceFinding(PASS, f"{workers} workers tell steps up to {facts.last_step}")
    return ReferenceFinding(
        FAIL,
        "the program prints no steps that are understood:"
        " print `step=N loss=...`, or set `progress` in the job file",
    )


def _saves(facts: ReferenceFacts) -> ReferenceFinding:
    saves, prefix = facts.layout.saves, facts.prefix_url
    if not saves:
        return _no_saves(facts, prefix)
    last = facts.last_step
    if len(saves) == 1 and last is not None and _is_at_end(facts):
        text = f"it saves only at its end, in {last} steps: a preemption costs all of them"
        return ReferenceFinding(FAIL, text, Cause.SAVES_ONLY_AT_END)
    interval = facts.interval_steps
    every = f", every {interval} steps" if interval else ""
    return ReferenceFinding(PASS, f"{len(saves)} saves below {prefix}{every}")


def _is_at_end(facts: ReferenceFacts) -> bool:
    """Whether the only save is that of the last step."""
    save, last = facts.layout.saves[0], facts.last_step or 0
    if save.step is not None:
        return save.step >= last - 1
    last_s = max(step.time_s for step in facts.log.steps if step.step >= last - 1)
    return min(write.began_s for write in save.writes) >= last_s


def _no_saves(facts: ReferenceFacts, prefix: str) -> ReferenceFinding:
    lines = (line.text for line in facts.runs[0].lines)
    found = next((match for text in lines if (match := LOCAL_SAVE.search(text))), None)
    if found is not None:
        path = found.group(found.lastindex or 0)
        text = f"it saves at {path} of the worker, whose disk is lost with it"
        return ReferenceFinding(FAIL, text, Cause.SAVES_ON_WORKER_DISK)
    where = f"below {prefix}" if prefix else "to any bucket"
    return ReferenceFinding(FAIL, f"it never writes an object {where}", Cause.NEVER_SAVES)


def _deterministic(facts: ReferenceFacts) -> ReferenceFinding | None:
    if not facts.log.steps or len(facts.runs) < 2:
        return None
    values = facts.values
    unstable = [name for name in values.unstable if name in LOSSES]
    if unstable:
        text = f"{', '.join(unstable)} differs between two undisturbed runs: fix the seed"
        return ReferenceFinding(WARN, f"{text}, or give a tolerance", Cause.NOT_DETERMINISTIC)
    if not values.metrics:
        return ReferenceFinding(UNKNOWN, "no metric has the same values in two undisturbed runs")
    return ReferenceFinding(PASS, f"the same in two runs: {', '.join(values.metrics)}")


LOSSES = ("loss", "train_loss", "val_loss", "eval_loss", "accuracy", "grad_norm", "lr")
"""Metrics that a training computes; others, such as times, need not be the same."""


def _order(facts: ReferenceFacts) -> ReferenceFinding | None:
    if not facts.layout.saves:
        return None
    if not facts.order:
        return ReferenceFinding(PASS, "no save is marked complete before its objects are there")
    return ReferenceFinding(
        WARN, "; ".join(found.text for found in facts.order), facts.order[0].cause
    )


def _inside_prefix(facts: ReferenceFacts) -> ReferenceFinding | None:
    prefix = facts.layout.prefix
    if not prefix:
        return None
    names = {write.name for write in object_writes(facts.runs[0].requests)}
    outside = sorted(name for name in names if not name.startswith(prefix))
    if not outside:
        return ReferenceFinding(PASS, f"every object that it writes is below {facts.prefix_url}")
    text = f"{len(outside)} objects are written outside of {facts.prefix_url}"
    return ReferenceFinding(WARN, f"{text}, such as gs://{outside[0]}")


def _memory(facts: ReferenceFacts, limits: Limits) -> ReferenceFinding | None:
    peak = max(run.peak_rss_bytes for run in facts.runs)
    if not peak or limits.memory_bytes is None:
        return None
    text = f"a run uses {_gib(peak)} GiB of memory, and there are {_gib(limits.memory_bytes)} GiB"
    return ReferenceFinding(FAIL if peak > limits.memory_bytes else PASS, text)


def _time(facts: ReferenceFacts, limits: Limits) -> ReferenceFinding | None:
    if limits.time_s is None:
        return None
    wall_s = facts.runs[0].ended_s - facts.runs[0].began_s
    all_s = wall_s * limits.moments / max(limits.side_by_side, 1)
    text = f"{limits.moments} runs of {wall_s:.0f} s take about {all_s:.0f} s"
    if wall_s > limits.time_s:
        return ReferenceFinding(FAIL, f"the job is too slow: one run takes {wall_s:.0f} s")
    return ReferenceFinding(WARN if all_s > limits.time_s else PASS, text)


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.1f}"


QUESTIONS: tuple[tuple[str, Callable[[ReferenceFacts], ReferenceFinding | None]], ...] = (
    ("ends", _ends),
    ("steps", _tells_steps),
    ("saves", _saves),
    ("deterministic", _deterministic),
    ("order", _order),
    ("inside-prefix", _inside_prefix),
)
"""Name of a check, public -> what answers it; None: the question does not arise."""
LIMIT_QUESTIONS: tuple[
    tuple[str, Callable[[ReferenceFacts, Limits], ReferenceFinding | None]], ...
] = (
    ("memory", _memory),
    ("time", _time),
)
"""The same for what this machine and the user's time allow."""
