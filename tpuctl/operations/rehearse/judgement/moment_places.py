"""Where in a run something can happen to it, as the `when` of an entry of a timeline."""

import fnmatch
import hashlib
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tpuctl.models.rehearsal.request_log import StorageRequest
from tpuctl.operations.local.timeline_words import escape_glob, ordinal
from tpuctl.operations.rehearse.judgement.observation.logged_steps import numbers_of
from tpuctl.operations.rehearse.judgement.observation.object_events import (
    OWN_PREFIX,
    ObjectWrite,
    is_of_program,
    object_writes,
)
from tpuctl.operations.rehearse.judgement.observation.object_names import name_parts
from tpuctl.operations.rehearse.judgement.observation.observed_saves import ObservedSave
from tpuctl.operations.rehearse.judgement.observation.run_facts import ReferenceFacts

READY_DELAY = "1s"
"""After READY, where a program sends no request before its first step."""
JOBS_PREFIX = f"{OWN_PREFIX}jobs/"
"""Below this a bucket has what workers fetch before the setup of a job."""
VERBS = {"storage.objects.list": "list", "storage.objects.get": "download"}


class RunPlaces(NamedTuple):
    """The undisturbed runs, and the seed that chooses among the places that they show."""

    facts: ReferenceFacts
    seed: int

    @property
    def node(self) -> str:
        """The slices of the job in every run, as a pattern."""
        return f"{self.job_name}-*"

    @property
    def job_name(self) -> str:
        """The name of the job."""
        job = self.facts.runs[0].job
        return job.spec.name if job else ""

    def choose(self, purpose: str, count: int) -> int:
        """A number below `count`, the same for the same seed and purpose everywhere."""
        digest = hashlib.sha256(f"{self.seed} {purpose}".encode()).digest()
        return int.from_bytes(digest[:8], "big") % count

    def save(self, purpose: str) -> ObservedSave | None:
        """A whole save, neither the first nor the last where there are others."""
        whole = [save for save in self.facts.layout.saves if save.complete_s is not None]
        inner = whole[1:-1] or whole[-1:]
        return inner[self.choose(f"save {purpose}", len(inner))] if inner else None

    def worker(self, purpose: str) -> str:
        """One of the job's workers, as the pattern NODE/WORKER."""
        workers = sorted({step.worker_id for step in self.facts.log.steps}) or [0]
        return self.pattern_of(workers[self.choose(f"worker {purpose}", len(workers))])

    def pattern_of(self, worker_id: int) -> str:
        """A worker of the whole job as NODE/WORKER, where WORKER counts within its slice."""
        job = self.facts.runs[0].job
        slices = job.spec.resources.num_slices if job else 1
        count = max((attempt.worker_count for attempt in job.attempts), default=0) if job else 0
        if slices == 1 or count < slices:
            return f"{self.node}/{worker_id}"
        number, index = divmod(worker_id, count // slices)
        return f"{self.node}-{number}/{index}"

    def step_between_saves(self, purpose: str) -> int | None:
        """A step between two saves, or in the middle of the run where saves tell no step."""
        steps = numbers_of(self.facts.log.steps)
        saved = sorted({save.step for save in self.facts.layout.saves if save.step is not None})
        gaps = [
            inner
            for before, after in zip(saved, saved[1:], strict=False)
            if (inner := [step for step in steps if before < step < after])
        ]
        if gaps:
            chosen = gaps[self.choose(f"gap {purpose}", len(gaps))]
            return chosen[len(chosen) // 2]
        middle = steps[len(steps) // 3 : 2 * len(steps) // 3] or steps
        return middle[self.choose(f"step {purpose}", len(middle))] if middle else None


def at_step(places: RunPlaces, purpose: str) -> str | None:
    """A step between two saves, as a worker tells it."""
    step = places.step_between_saves(purpose)
    return None if step is None else f"at step {step} of {places.worker(purpose)}"


def after_workdir(places: RunPlaces) -> str | None:
    """When a worker has fetched what it needs before the job's setup."""
    job = places.facts.runs[0].job
    worker = places.worker("setup")
    for request in places.facts.runs[0].requests:
        is_own = request.object.startswith(JOBS_PREFIX)
        if request.method == "storage.objects.get" and request.caller and is_own and job:
            name = request.object.replace(job.job_id, "*")
            return f"after 1st download of {request.bucket}/{name} by {worker}"
    return f"{READY_DELAY} after 1st READY of {places.node}"


def before_first_step(places: RunPlaces) -> str | None:
    """The first request of a worker's program, or a time where none comes before a step."""
    first_step_s = min((step.time_s for step in places.facts.log.steps), default=0.0)
    firsts: dict[str, StorageRequest] = {}
    for request in places.facts.runs[0].requests:
        is_early = request.method in VERBS and request.began_s < first_step_s
        if is_early and is_of_program(request):
            firsts.setdefault(_caller(places, request.caller), request)
    if not firsts:
        return f"{READY_DELAY} after 1st READY of {places.node}"
    worker = sorted(firsts)[places.choose("worker start-up", len(firsts))]
    first = firsts[worker]
    name = escape_glob(f"{first.bucket}/{first.object}")
    return f"before 1st {VERBS[first.method]} of {name}* by {worker}"


def before_first_save(places: RunPlaces) -> str | None:
    """A step in the middle of those before the first save."""
    saved = [save.step for save in places.facts.layout.saves if save.step is not None]
    steps = numbers_of(places.facts.log.steps)
    early = [step for step in steps if not saved or step < min(saved)]
    if not early or not places.facts.layout.saves:
        return None
    return f"at step {early[len(early) // 2]} of {places.worker('save:before-first')}"


WITHOUT_BODY = ("before", "after")
"""The phases that a copy has."""


def upload_place(
    purpose: str, phase: str, pick: Callable[[ObservedSave], ObjectWrite | None]
) -> Callable[[RunPlaces], str | None]:
    """A phase of the upload of an object that is picked from a save which the seed chooses.

    An object that is made by a copy has no bytes in flight: the phase is then before the copy.
    """

    def place(places: RunPlaces) -> str | None:
        save = places.save(purpose)
        write = pick(save) if save else None
        if write is None:
            return None
        has_phase = phase in WITHOUT_BODY or not write.is_copy
        return f"{phase if has_phase else WITHOUT_BODY[0]} {upload_text(places, write)}"

    return place


def first_object(save: ObservedSave) -> ObjectWrite | None:
    """The first object of the data, by the order of requests or, among workers, of names."""
    return _ordered(save.data or save.writes)[0]


def middle_object(save: ObservedSave) -> ObjectWrite | None:
    """The object in the middle of the data."""
    ordered = _ordered(save.data or save.writes)
    return ordered[len(ordered) // 2]


def last_object(save: ObservedSave) -> ObjectWrite | None:
    """The last object of the data; None: it has a single one."""
    ordered = _ordered(save.data)
    return ordered[-1] if len(ordered) > 1 else None


def last_marker(save: ObservedSave) -> ObjectWrite | None:
    """The last upload of the marker; None: saves have none."""
    return max(save.marker_writes, key=lambda write: write.number, default=None)


def marker_or_last(save: ObservedSave) -> ObjectWrite | None:
    """What completes a save: its marker or, without one, the last object."""
    return last_marker(save) or _ordered(save.writes)[-1]


def _ordered(writes: Sequence[ObjectWrite]) -> list[ObjectWrite]:
    """Writes in an order that is the same in every run.

    Uploads of several workers, or several of one worker at a time, overtake each other: only a
    worker that sends one after the other has an order of its own.
    """
    by_number = sorted(writes, key=lambda write: write.number)
    pairs = zip(by_number, by_number[1:], strict=False)
    in_turn = all(
        before.complete_s is not None and before.complete_s <= after.began_s
        for before, after in pairs
    )
    one_caller = len({write.caller for write in writes}) == 1
    if one_caller and in_turn:
        return by_number
    return sorted(writes, key=lambda write: (_natural(write.name), write.number))


def upload_text(places: RunPlaces, write: ObjectWrite) -> str:
    """`2nd upload of bucket/name by NODE/WORKER`: the same upload, or copy, in every run."""
    glob = object_glob(places, write)
    callers = {
        other.caller.rpartition("/")[2]
        for run in places.facts.runs
        for other in object_writes(run.requests)
        if other.name == write.name
    }
    by = f" by {_caller(places, write.caller)}" if len(callers) == 1 else ""
    pattern = re.compile(fnmatch.translate(glob))
    earlier = [
        other
        for other in object_writes(places.facts.runs[0].requests)
        if pattern.fullmatch(other.name)
        and other.number <= write.number
        and other.is_copy == write.is_copy
        and (not by or other.caller == write.caller)
    ]
    verb = "copy" if write.is_copy else "upload"
    return f"{ordinal(len(earlier))} {verb} of {glob}{by}"


def object_glob(places: RunPlaces, write: ObjectWrite) -> str:
    """The name of an object with `*` for what is not the same in two undisturbed runs."""
    parts = name_parts(write.name)
    columns = [
        [
            other.tokens
            for each in object_writes(run.requests)
            if (other := name_parts(each.name)).template == parts.template
        ]
        for run in places.facts.runs
    ]
    tokens = [
        token if all(any(row[index] == token for row in rows) for rows in columns) else "*"
        for index, token in enumerate(parts.tokens)
    ]
    fixed = [escape_glob(text) for text in parts.template.split("#")]
    filled = (token + text for token, text in zip(tokens, fixed[1:], strict=True))
    return fixed[0] + "".join(filled)


def kind_glob(name: str) -> str:
    """The objects of the same kind in every save: the name with `*` for every number in it."""
    return "*".join(escape_glob(text) for text in name_parts(name).template.split("#"))


def _caller(places: RunPlaces, caller: str) -> str:
    job = places.facts.runs[0].job
    if job is None:
        return caller
    return re.sub(rf"^{re.escape(job.job_id)}-a\d+(c\d+)?", places.node, caller)


def _natural(name: str) -> list[tuple[int, str]]:
    """A key by which `shard-10` comes after `shard-9`."""
    return [
        (int(part), "") if part.isdigit() else (-1, part)
        for part in re.split(r"(\d+)", name)
        if part
    ]
