"""Rehearsals of a small job, made by hand: what every report is tried with."""

from collections.abc import Iterator
from dataclasses import replace

from tpuctl.models.job import AttemptOutcome, JobState
from tpuctl.models.rehearsal.moment import Disturbance, Moment
from tpuctl.models.rehearsal.run_history import (
    AttemptSpan,
    FiredDisturbance,
    LoggedStep,
    RunHistory,
    SaveSpan,
)
from tpuctl.models.rehearsal.verdict import (
    Cause,
    Check,
    Judgement,
    ReferenceVerdict,
    RehearsalReport,
    Verdict,
)
from tpuctl.operations.rehearse.events import (
    MomentJudged,
    MomentsPlanned,
    ReferenceJudged,
    RehearsalEnded,
    RehearsalEvent,
    RunProgressed,
    RunStarted,
)

STEPS, INTERVAL = 60, 10
STEP_S = 0.25
PREPARED_S = 1.5
"""From the request for a slice to the start of the programs."""
FIRST_STEP_S = 1.0
NOTICES = {"30s": 30.0, "5s": 5.0, "none": None}
PLACES = {
    "start-up": "before the first step, after 1st READY of digits-*",
    "save:before-first": "before 1st upload of gs://local-bucket/runs/digits/*",
    "save:middle": "in the middle of 2nd upload of gs://local-bucket/runs/digits/0000000030/*",
    "save:marker": "before 1st upload of gs://local-bucket/runs/digits/0000000030/COMMIT",
    "save:between": "at step 37 of digits-*/0",
    "restore": "before 1st download of gs://local-bucket/runs/digits/*",
}
TITLES = {
    "start-up": "while the program starts",
    "save:before-first": "before the first save",
    "save:middle": "in the middle of a save",
    "save:marker": "just before the marker of a save",
    "save:between": "between two saves",
    "restore": "while it restores",
}


def preemption(place: str, notice: str) -> Moment:
    """The moment of a preemption, as `--moments` names it."""
    notice_s = NOTICES[notice]
    said = f"with a notice of {notice_s:.0f} s" if notice_s else "without notice"
    act = f"preempt digits-* {said.replace('a notice of ', 'notice of ').replace(' s', 's')}"
    entry = {"name": "disturbance", "when": PLACES[place], "do": act}
    title = f"{TITLES[place]}, {said}"
    return Moment(
        f"{place}/{notice}", title, Disturbance.PREEMPTION, (entry,), notice_s, PLACES[place]
    )


def run_history(
    kill_step: int, resume_step: int, *, last_step: int = STEPS, notice_s: float = 0.0
) -> RunHistory:
    """A run that loses its slice after `kill_step`, and goes on from `resume_step`.

    With a notice it makes steps until its end. It has one attempt when `kill_step` is `last_step`.
    """
    attempts, steps, saves, begin_s, first = [], [], [], 0.2, 0
    ends = [kill_step, last_step] if kill_step < last_step else [last_step]
    for number, last in enumerate(ends, start=1):
        start_s = begin_s + PREPARED_S
        step_s = start_s + FIRST_STEP_S
        mine = [
            LoggedStep(number, step, round(step_s + (step - first) * STEP_S, 3))
            for step in range(first + 1, last + 1)
        ]
        end_s = (mine[-1].time_s if mine else start_s) + 0.3
        is_last = number == len(ends)
        outcome = AttemptOutcome.SUCCEEDED if is_last else AttemptOutcome.PREEMPTED
        attempts.append(
            AttemptSpan(
                number, "us-west4-a", begin_s, begin_s + 0.4, begin_s + 0.9, start_s, end_s, outcome
            )
        )
        steps += mine
        saves += [
            SaveSpan(each.time_s, each.step, each.time_s + 0.2)
            for each in mine
            if each.step % INTERVAL == 0
        ]
        begin_s, first = end_s + 0.6, resume_step
    if len(ends) == 1:
        return RunHistory(end_s + 0.8, tuple(attempts), tuple(steps), tuple(saves))
    lost_s = attempts[0].ended_s
    return RunHistory(
        end_s + 0.8,
        tuple(attempts),
        tuple(steps),
        tuple(saves),
        (attempts[1].started_s + 0.4,),
        (FiredDisturbance("disturbance", max(0.0, lost_s - notice_s)),),
    )


def recovery_s(history: RunHistory, kill_step: int) -> float:
    """From the disturbance to the first new step."""
    new_s = next(each.time_s for each in history.steps if each.step > kill_step)
    return round(new_s - history.disturbances[0].time_s, 2)


def checks(**evidence: str) -> tuple[Check, ...]:
    """The checks of a run that passes, but for those whose evidence is given as `fail: …`."""
    sentences = {
        "came-back": "attempt 2 started 4.1 s after the slice was lost",
        "resumed-from": "attempt 2 began at step 30, the newest whole save",
        "lost-steps": "7 steps were made twice; a save comes every 10 steps",
        "values": "240 values of 60 steps are the same text as in the reference",
        "steps-once": "each of 60 steps counts once",
        "examples": "the program does not log its examples",
        "checkpoint": "tpuctl: steps 40, 50 and 60 are whole",
        "leftovers": "nothing is left over",
        "exit": "the job SUCCEEDED, exit code 0",
    }
    judged = {"examples": Judgement.UNKNOWN}
    for name, text in evidence.items():
        key = name.replace("_", "-")
        judgement, _, sentences[key] = text.partition(": ")
        judged[key] = Judgement(judgement)
    return tuple(
        Check(name, judged.get(name, Judgement.PASS), text) for name, text in sentences.items()
    )


def passing(place: str, notice: str, *, wall_s: float = 23.4) -> Verdict:
    """A verdict without fault."""
    moment = preemption(place, notice)
    history = run_history(37, 30, notice_s=min(moment.notice_s or 0.0, 4.5))
    return Verdict(
        moment, Judgement.PASS, checks(), 30, 7, INTERVAL, recovery_s(history, 37), 0.0123,
        replay=replay_of(moment.name), wall_s=wall_s, history=history,
    )  # fmt: skip


def replay_of(name: str) -> str:
    return f"tpuctl rehearse job.yaml --only {name} --seed 7"


REFERENCE = ReferenceVerdict(
    Judgement.PASS,
    (
        Check("came-back", Judgement.PASS, "the job SUCCEEDED in one attempt, twice"),
        Check("saves", Judgement.PASS, "6 saves, one every 10 steps"),
        Check("values", Judgement.PASS, "two runs agree in every value of 60 steps"),
        Check("memory", Judgement.PASS, "both runs together used 1.1 GiB of 7.8 GiB"),
    ),
    steps=STEPS,
    saves=STEPS // INTERVAL,
    save_interval_steps=INTERVAL,
    prefix="gs://local-bucket/runs/digits",
    wall_s=19.6,
    history=run_history(STEPS, 0),
)
FIRST = tuple(passing(place, notice) for place in PLACES for notice in NOTICES)
TORN = replace(preemption("save:marker", "none"), name="save:marker/none")
TORN_RUN = run_history(37, 20)
TORN_SAVES = tuple(
    replace(save, complete_s=None) if number == 2 else save
    for number, save in enumerate(TORN_RUN.saves)
)
TORN_VERDICT = Verdict(
    TORN, Judgement.FAIL,
    checks(
        values="fail: the loss of step 31 is 0.41258, and 0.39871 in the reference",
        checkpoint="fail: step 30 is bad: 0000000030/part-3 is missing",
        lost_steps="pass: 17 steps were made twice; a save comes every 10 steps",
    ),
    20, 17, INTERVAL, recovery_s(TORN_RUN, 37), 0.0231, Cause.MARKER_BEFORE_OTHER_WORKERS,
    "worker 0 writes 0000000030/COMMIT (request 412) before worker 3 has written 0000000030/part-3",
    replay_of(TORN.name), "/home/ada/.tpuctl/rehearsals/digits-7f3a/save:marker-none", 31.7,
    replace(TORN_RUN, saves=TORN_SAVES),
)  # fmt: skip
LOST_RUN = run_history(37, 30)
NEVER_BACK = Verdict(
    preemption("restore", "5s"), Judgement.FAIL,
    checks(
        came_back="fail: the job did not make a new step for 120 s after the slice was lost",
        resumed_from="unknown: no attempt began after the loss",
        lost_steps="unknown: no attempt began after the loss",
        exit="fail: the job FAILED: a worker <ended> with exit status 1 & no step",
    ),
    save_interval_steps=INTERVAL, replay=replay_of("restore/5s"),
    state_dir="/home/ada/.tpuctl/rehearsals/digits-7f3a/restore-5s", wall_s=141.2,
    history=replace(
        LOST_RUN, attempts=LOST_RUN.attempts[:1], saves=LOST_RUN.saves[:3], restores_s=(),
        steps=tuple(each for each in LOST_RUN.steps if each.attempt == 1), ended_s=138.0,
    ),
)  # fmt: skip
UNSEEN = Verdict(
    preemption("save:before-first", "30s"), Judgement.UNKNOWN,
    (
        Check("came-back", Judgement.UNKNOWN, "the moment never came: the 1st upload was not made"),
        Check("examples", Judgement.UNKNOWN, "the program does not log its examples"),
    ),
    replay=replay_of("save:before-first/30s"), wall_s=18.9, history=run_history(STEPS, 0),
)  # fmt: skip
UNNOTICED = replace(
    passing("save:between", "30s"), judgement=Judgement.WARN,
    checks=checks(notice="warn: 30 s of notice were given, and no save was made in them"),
    cause=None,
)  # fmt: skip
HANGS = Verdict(
    Moment("worker-hangs", "worker 2 hangs", Disturbance.WORKER_HANGS,
           ({"name": "disturbance", "when": "at step 37 of digits-*/2",
             "do": "worker digits-*/2: hangs"},), None, "at step 37 of digits-*/2"),
    Judgement.PASS, checks(), 30, 7, INTERVAL, recovery_s(run_history(37, 30), 37), 0.0188,
    replay=replay_of("worker-hangs"), wall_s=33.0, history=run_history(37, 30),
)  # fmt: skip
ERRORS = Verdict(
    Moment("storage-errors", "the bucket answers 503 and 429 for a minute",
           Disturbance.STORAGE_ERRORS,
           ({"name": "disturbance", "when": "at step 23 of digits-*/1",
             "do": "storage.*: return-503", "for": "4s"},), None, "at step 23 of digits-*/1"),
    Judgement.PASS, checks(), None, 0, INTERVAL, 0.3, 0.0021,
    replay=replay_of("storage-errors"), wall_s=24.0,
    history=replace(run_history(STEPS, 0), disturbances=(FiredDisturbance("disturbance", 8.5),)),
)  # fmt: skip

ALL_PASS = RehearsalReport("digits", "job.yaml", 7, REFERENCE, FIRST[:12], wall_s=101.5)
SOME_FAIL = RehearsalReport(
    "digits", "job.yaml", 7, REFERENCE,
    (*FIRST[:3], UNSEEN, *FIRST[4:9], TORN_VERDICT, UNNOTICED, NEVER_BACK, HANGS, ERRORS),
    ("no-capacity", "unreachable"), 274.8,
)  # fmt: skip
NEVER_SAVED = RehearsalReport(
    "digits", "job.yaml", 7,
    ReferenceVerdict(
        Judgement.FAIL,
        (Check("saves", Judgement.FAIL, "60 steps, and nothing was written to a bucket"),),
        Cause.NEVER_SAVES, "the program made 60 steps and wrote nothing to a bucket",
        STEPS, wall_s=18.1, history=replace(run_history(STEPS, 0), saves=()),
    ),
    (), wall_s=18.4,
)  # fmt: skip
REPORTS = {"all-pass": ALL_PASS, "some-fail": SOME_FAIL, "never-saved": NEVER_SAVED}


def events_of(report: RehearsalReport, side_by_side: int = 2) -> Iterator[RehearsalEvent]:
    """What the rehearsal that ended in the report yielded."""
    for name in ("reference", "reference-2"):
        yield RunStarted(name)
        yield RunProgressed(name, JobState.PREPARING, 0, 1)
        yield RunProgressed(name, JobState.RUNNING, 12, 1)
        yield RunProgressed(name, JobState.RUNNING, report.reference.steps, 1)
        yield RunProgressed(name, JobState.SUCCEEDED, report.reference.steps, 1)
    yield ReferenceJudged(report.reference)
    if report.verdicts:
        yield MomentsPlanned(tuple(each.moment for each in report.verdicts), side_by_side)
    for at in range(0, len(report.verdicts), side_by_side):
        together = report.verdicts[at : at + side_by_side]
        for verdict in together:
            yield RunStarted(verdict.moment.name)
        for verdict in together:
            yield RunProgressed(verdict.moment.name, JobState.RUNNING, 37, 1)
            yield RunProgressed(verdict.moment.name, JobState.RECOVERING, 37, 1)
            yield RunProgressed(verdict.moment.name, JobState.RUNNING, 31, 2)
        for verdict in together:
            yield MomentJudged(verdict)
    yield RehearsalEnded(report)
