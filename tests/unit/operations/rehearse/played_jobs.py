"""Plays small training jobs against a bucket in memory, and records what a rehearsal would see.

Two workers train in step. A job is killed before or after the request that a test chooses, and then
begins again with what the bucket has. No process runs and no time passes.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from tpuctl.models.job import (
    Attempt,
    AttemptOutcome,
    AttemptState,
    Checkpoints,
    JobRecord,
    JobSpec,
    JobState,
)
from tpuctl.models.job_log import LogLine
from tpuctl.models.rehearsal.evidence import FiredEntry, RunEvidence
from tpuctl.models.rehearsal.moment import Disturbance, Moment
from tpuctl.models.rehearsal.rehearse_spec import RehearseSpec
from tpuctl.models.rehearsal.request_log import StorageRequest
from tpuctl.operations.rehearse.judgement.observation.run_facts import (
    ReferenceFacts,
    reference_facts,
)

JOB_ID = "job-7f3a"
PREFIX = "runs/x/"
BUCKET = "b"
STEPS = 20
SAVE_EVERY = 5
MOST_ATTEMPTS = 4
TICK_S = 0.01

State = dict[str, int]
REQUEST = re.compile(
    r"(?P<phase>before|at the first byte of|in the middle of|after) (?P<count>\d+)\w\w"
    r" (?P<verb>upload|download|list) of (?P<glob>\S+)( by \S+/(?P<worker>\d+))?"
)
"""What a planned moment says of a request."""
STEP = re.compile(r"at step (?P<step>\d+) of \S+/(?P<worker>\d+)")
VERBS = {
    "storage.objects.insert": "upload",
    "storage.objects.get": "download",
    "storage.objects.list": "list",
}


class Killed(Exception):  # noqa: N818 (it is an event, no error)
    """The workers are gone."""


class Crashed(Exception):  # noqa: N818
    """The program has failed by itself."""


@dataclass
class Kill:
    """When the workers of a job are killed: at a request by its number, or as a `when` says."""

    number: int = 0
    is_after: bool = False
    when: str = ""
    name: str = "kill"
    seen: int = 0

    def is_at(self, number: int, method: str, name: str, worker: int) -> bool:
        """Whether it comes at this request."""
        match = REQUEST.fullmatch(self.when)
        if match is None:
            return number == self.number
        is_meant = (
            VERBS.get(method) == match["verb"]
            and fnmatchcase(f"{BUCKET}/{PREFIX}{name}", match["glob"])
            and match["worker"] in (None, str(worker))
        )
        self.seen += is_meant
        self.is_after = match["phase"] == "after"
        return is_meant and self.seen == int(match["count"])

    def is_at_step(self, step: int, worker: int) -> bool:
        """Whether it comes when a worker tells this step."""
        match = STEP.fullmatch(self.when)
        return match is not None and (int(match["step"]), int(match["worker"])) == (step, worker)


def kills_of(timeline: tuple[Mapping[str, Any], ...]) -> list[Kill]:
    """The kills of a moment's timeline, one after the other."""
    found = []
    entries = list(timeline)
    while entries:
        found.append(Kill(when=entries[0]["when"], name=entries[0]["name"]))
        entries = entries[0].get("then", [])
    return found


@dataclass
class Play:
    """One run of a job: the bucket, the time, and everything that is recorded."""

    kills: list[Kill] = field(default_factory=list)
    """Those that are still to come; the first one is waited for."""
    bucket: dict[str, Any] = field(default_factory=dict)
    now_s: float = 1000.0
    attempt: int = 1
    requests: list[StorageRequest] = field(default_factory=list)
    lines: list[LogLine] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    fired: list[FiredEntry] = field(default_factory=list)

    def put(self, worker: int, name: str, content: Any, size: int = 20_000) -> None:
        """Upload an object in one request."""
        self.ask("storage.objects.insert", worker, name, size, content)

    def begin_upload(self, worker: int, name: str) -> int:
        """Open an upload and send half of it; returns its number."""
        return self.ask("storage.objects.insert", worker, name, 10_000, upload=-1)

    def end_upload(self, worker: int, name: str, content: Any, upload: int) -> None:
        """Send the other half of an upload."""
        self.ask("storage.objects.insert", worker, name, 10_000, content, upload)

    def get(self, worker: int, name: str) -> Any:
        """Download an object; None when there is none."""
        self.ask("storage.objects.get", worker, name, 100)
        return self.bucket.get(name)

    def delete(self, worker: int, name: str) -> None:
        """Delete an object."""
        self.ask("storage.objects.delete", worker, name, 0)
        self.bucket.pop(name, None)

    def names(self, worker: int) -> list[str]:
        """List all objects."""
        self.ask("storage.objects.list", worker, "", 100)
        return sorted(self.bucket)

    def ask(
        self,
        method: str,
        worker: int,
        name: str,
        size: int,
        content: Any = None,
        upload: int = 0,
    ) -> int:
        """Record one request, and kill the job at the chosen one."""
        number, is_whole = len(self.requests) + 1, upload <= 0 or content is None
        kill = self.kills[0] if self.kills else Kill()
        is_last = is_whole and kill.is_at(number, method, name, worker)
        is_made = content is not None and (not is_last or kill.is_after)
        if is_made:
            self.bucket[name] = content
        is_there = method.endswith("insert") or name in self.bucket or not name
        self.requests.append(
            StorageRequest(
                number=number,
                method=method,
                bucket=BUCKET,
                object=PREFIX + name,
                caller=f"{JOB_ID}-a{self.attempt}/{worker}",
                began_s=self.tick(),
                ended_s=None if is_last else self.tick(),
                status=0 if is_last else (200 if is_there else 404),
                body_bytes=size,
                generation=number if is_made else 0,
                upload=number if upload < 0 else upload,
            )
        )
        if is_last:
            self.die(number)
        return number

    def die(self, request: int = 0) -> None:
        """The workers are killed now."""
        kill = self.kills.pop(0)
        self.fired.append(FiredEntry(kill.name, self.now_s, request))
        raise Killed

    def tick(self) -> float:
        """A little later."""
        self.now_s += TICK_S
        return self.now_s

    def say(self, worker: int, text: str) -> None:
        """Print a line."""
        self.lines.append(LogLine(self.attempt, worker, self.tick(), text))
        step = text.removeprefix("step=").partition(" ")[0]
        if self.kills and step.isdigit() and self.kills[0].is_at_step(int(step), worker):
            self.die()


Save = Callable[[Play, int, list[State]], None]
Resume = Callable[[Play], list[State] | None]


@dataclass(frozen=True)
class Program:
    """A way to save and to resume; `resume` returns the state of each worker that goes on."""

    save: Save
    resume: Resume


def first_state(worker: int) -> State:
    """The state of a worker before the first step."""
    return {"step": 0, "weights": 1, "momentum": 0, "noise": 100 + worker, "position": 0}


def make_step(play: Play, states: list[State]) -> None:
    """Train one step on all workers and print it: any number that is lost changes what follows."""
    losses = []
    for state in states:
        state["noise"] = state["noise"] * 7 % 1009
        losses.append(state["weights"] * 31 + state["position"] * 17 + state["noise"])
    loss = sum(losses) % 9973
    for worker, state in enumerate(states):
        state["momentum"] = (state["momentum"] * 3 + loss) % 997
        state["weights"] = (state["weights"] + state["momentum"]) % 9973
        state["step"] += 1
        read = f"{state['position'] + worker},{state['position'] + worker + 2}"
        state["position"] += 4
        play.say(worker, f"step={state['step']} loss={loss}.5 examples={read}")


def play_attempt(play: Play, program: Program) -> None:
    """Run the program until its end; raises Killed or Crashed."""
    states = program.resume(play)
    if states is None:
        states = [first_state(0), first_state(1)]
    elif states:
        play.say(0, f"resumed step={states[0]['step']}")
    while states[0]["step"] < STEPS:
        make_step(play, states)
        if states[0]["step"] % SAVE_EVERY == 0:
            program.save(play, states[0]["step"], states)


def play_job(program: Program, kills: Sequence[Kill] = ()) -> RunEvidence:
    """Run a job until it succeeds or fails too often."""
    play = Play(list(kills))
    state, began_s = JobState.FAILED, play.now_s
    for number in range(1, MOST_ATTEMPTS + 1):
        play.attempt, started_s = number, play.tick()
        outcome = attempt_outcome(play, program)
        play.attempts.append(
            Attempt(
                number=number,
                zone="us-west4-a",
                node=f"{JOB_ID}-a{number}",
                state=AttemptState.ENDED,
                owned=True,
                worker_count=2,
                ready_s=started_s,
                started_s=started_s,
                ended_s=play.tick(),
                outcome=outcome,
            )
        )
        if outcome == AttemptOutcome.SUCCEEDED:
            state = JobState.SUCCEEDED
            break
    return evidence_of(play, state, began_s)


def attempt_outcome(play: Play, program: Program) -> AttemptOutcome:
    """How an attempt ended."""
    try:
        play_attempt(play, program)
    except Killed:
        return AttemptOutcome.PREEMPTED
    except Crashed:
        return AttemptOutcome.FAILED
    return AttemptOutcome.SUCCEEDED


def evidence_of(play: Play, state: JobState, began_s: float) -> RunEvidence:
    """What was recorded."""
    spec = JobSpec(name="job", run="", checkpoints=Checkpoints(f"gs://{BUCKET}/{PREFIX}"))
    job = JobRecord(
        job_id=JOB_ID,
        spec=spec,
        owner="me",
        submitted_s=began_s,
        zone="us-west4-a",
        accelerator_type="v4-16",
        usd_per_hour=3.6,
        state=state,
        attempts=tuple(play.attempts),
    )
    return RunEvidence(
        job=job,
        exit_code=0 if state == JobState.SUCCEEDED else 71,
        error="",
        lines=tuple(play.lines),
        requests=tuple(play.requests),
        fired=tuple(play.fired),
        began_s=began_s,
        ended_s=play.now_s,
    )


def kill_moment() -> Moment:
    """The moment of a job that a test kills at a request."""
    entry = {"name": "kill", "when": "before 1st upload of *", "do": "preempt job-* without notice"}
    return Moment("save:middle/none", "killed", Disturbance.PREEMPTION, (entry,), None)


def facts_of(runs, **spec) -> ReferenceFacts:
    """What undisturbed runs show; `spec` has fields of the job file's `rehearse`."""
    return reference_facts(runs, RehearseSpec(**spec))
