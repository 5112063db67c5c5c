"""The moments of a job: one table, and what the undisturbed runs put into it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tpuctl.models.rehearsal.moment import Disturbance, Moment
from tpuctl.operations.rehearse.judgement.moment_places import (
    RunPlaces,
    after_workdir,
    at_step,
    before_first_save,
    before_first_step,
    first_object,
    kind_glob,
    last_marker,
    last_object,
    marker_or_last,
    middle_object,
    upload_place,
)
from tpuctl.operations.rehearse.judgement.observation.run_facts import ReferenceFacts

Entry = Mapping[str, Any]
NOTICES: tuple[tuple[str, str, float | None], ...] = (
    ("30s", "with notice of 30s", 30.0),
    ("5s", "with notice of 5s", 5.0),
    ("none", "without notice", None),
)
"""End of the moment's name, words of the timeline, notice in seconds."""
SUPERVISOR_ENTRY = "supervisor"
"""The entry at which whoever runs the rehearsal kills the supervisor."""
FAST_DETECTION = {"detection_delay_s": 5}
"""Google's service is assumed to need a minute to notice a lost worker: it is not waited for."""
ERROR_TIME = "30s"
"""For 503, and again for 429: a minute together."""
UNREACHABLE_TIME = "75s"
"""Longer than a supervisor waits for workers that it cannot reach."""
SLOW_TIME = "20s"
FULL_ZONE_TIME = "20s"
"""How long a zone has no capacity where the job may go to no other one."""


class PreemptionPlace(NamedTuple):
    """A row of the table of preemptions."""

    name: str
    title: str
    when: Callable[[RunPlaces], str | None]


PREEMPTIONS: tuple[PreemptionPlace, ...] = (
    PreemptionPlace("setup", "while the slice is prepared", after_workdir),
    PreemptionPlace("start-up", "before the program's first step", before_first_step),
    PreemptionPlace("save:before-first", "before the first save", before_first_save),
    PreemptionPlace(
        "save:first-byte",
        "at the first byte of a save",
        upload_place("save:first-byte", "at the first byte of", first_object),
    ),
    PreemptionPlace(
        "save:middle",
        "in the middle of a save",
        upload_place("save:middle", "in the middle of", middle_object),
    ),
    PreemptionPlace(
        "save:last-data",
        "before the last object of a save's data",
        upload_place("save:last-data", "before", last_object),
    ),
    PreemptionPlace(
        "save:marker",
        "before a save is marked complete",
        upload_place("save:marker", "before", last_marker),
    ),
    PreemptionPlace(
        "save:after",
        "right after a save is complete",
        upload_place("save:after", "after", marker_or_last),
    ),
    PreemptionPlace(
        "save:between", "between two saves", lambda places: at_step(places, "save:between")
    ),
)
"""Every place of a single preemption, in the order in which a job comes to them."""


PREEMPTED_TWICE = ("restore", "twice")
MOMENT_NAMES = (
    *(
        f"{place}/{ending}"
        for place in (*(place.name for place in PREEMPTIONS), *PREEMPTED_TWICE)
        for ending, _, _ in NOTICES
    ),
    *(each.value for each in Disturbance if each != Disturbance.PREEMPTION),
)
"""The name of every moment that a job may have. Public."""


def planned_moments(facts: ReferenceFacts, seed: int) -> tuple[Moment, ...]:
    """Every moment that the job has; the same runs and seed give the same ones.

    Where there are two undisturbed runs, what differs between them is left out of the names of
    objects that a moment waits for. A moment for which the job has no place, such as
    the marker of saves that have none, is not among them (see `missing_moments`).
    """
    places = RunPlaces(facts, seed)
    return tuple(
        moment
        for rule in (_preemptions, _restores, _twice, _other_disturbances)
        for moment in rule(places)
    )


def missing_moments(moments: Sequence[Moment]) -> tuple[str, ...]:
    """The names of moments that the job does not have."""
    names = {_place_of(moment.name) for moment in moments}
    known = dict.fromkeys(map(_place_of, MOMENT_NAMES))
    return tuple(name for name in known if name not in names)


def _place_of(name: str) -> str:
    """The name of a moment without its notice."""
    return name.rpartition("/")[0] or name


def _preemptions(places: RunPlaces) -> Iterator[Moment]:
    for place in PREEMPTIONS:
        when = place.when(places)
        for ending, words, notice_s in NOTICES if when else ():
            entry = {"name": place.name, "when": when, "do": f"preempt {places.node} {words}"}
            yield _preemption(place.name, ending, place.title, notice_s, (entry,), when or "")


def _restores(places: RunPlaces) -> Iterator[Moment]:
    """Preempted once, and again as it reads its checkpoint."""
    when, prefix = at_step(places, "restore"), places.facts.layout.prefix
    if when is None or not places.facts.layout.saves:
        return
    second = f"before 1st download of {prefix}*"
    for ending, words, notice_s in NOTICES:
        again = {"name": "restore", "when": second, "do": f"preempt {places.node} {words}"}
        timeline = (_first_preemption(places, when, again),)
        title = "while it restores a checkpoint"
        yield _preemption("restore", ending, title, notice_s, timeline, second)


def _twice(places: RunPlaces) -> Iterator[Moment]:
    """Preempted in the middle of a save, and again in the next one that it makes."""
    place = upload_place("twice", "in the middle of", middle_object)(places)
    save = places.save("twice")
    like = middle_object(save) if save else None
    if place is None or like is None or like.is_copy:
        return
    second = f"in the middle of 1st upload of {kind_glob(like.name)}"
    for ending, words, notice_s in NOTICES:
        again = {"name": "again", "when": second, "do": f"preempt {places.node} {words}"}
        timeline = (_first_preemption(places, place, again),)
        title = "in the middle of two saves in a row"
        yield _preemption("twice", ending, title, notice_s, timeline, f"{place}, and again")


def _first_preemption(places: RunPlaces, when: str, then: Entry) -> Entry:
    action = f"preempt {places.node} without notice"
    return {"name": "first", "when": when, "do": action, "then": [then]}


def _preemption(
    name: str,
    ending: str,
    title: str,
    notice_s: float | None,
    timeline: tuple[Entry, ...],
    place: str,
) -> Moment:
    words = f"{title}, {'without notice' if notice_s is None else f'{notice_s:g} s notice'}"
    return Moment(f"{name}/{ending}", words, Disturbance.PREEMPTION, timeline, notice_s, place)


class OtherDisturbance(NamedTuple):
    """A row of the table of what is not a preemption alone."""

    disturbance: Disturbance
    title: str
    entry: Entry
    """What the entry of the timeline has beside `name` and `when`.

    `{worker}`, `{node}`, `{zone}` and `{type}` stand for those of the job's first slice.
    """
    scenario: Mapping[str, Any] = {}


OTHERS: tuple[OtherDisturbance, ...] = (
    OtherDisturbance(
        Disturbance.WORKER_HANGS,
        "one worker hangs",
        {"do": "worker {worker}: hangs"},
        FAST_DETECTION,
    ),
    OtherDisturbance(
        Disturbance.WORKER_KILLED,
        "one worker is killed",
        {"do": "worker {worker}: killed"},
        FAST_DETECTION,
    ),
    OtherDisturbance(
        Disturbance.WORKER_CUT_OFF,
        "one worker is cut off from the network",
        {"do": "worker {worker}: cut off"},
        FAST_DETECTION,
    ),
    OtherDisturbance(
        Disturbance.WORKER_SLOW,
        "one worker is slow for a while",
        {"do": "worker {worker}: slow 4x", "for": SLOW_TIME},
    ),
    OtherDisturbance(
        Disturbance.SUPERVISOR_KILLED,
        "the supervisor is killed",
        {"name": SUPERVISOR_ENTRY, "do": "nothing"},
    ),
    OtherDisturbance(
        Disturbance.STORAGE_ERRORS,
        "the bucket answers 503 and 429 for a minute",
        {
            "do": "storage.*: return-503",
            "for": ERROR_TIME,
            "then": [
                {
                    "name": "429",
                    "when": f"{ERROR_TIME} later",
                    "do": "storage.*: return-429",
                    "for": ERROR_TIME,
                }
            ],
        },
    ),
    OtherDisturbance(
        Disturbance.NO_CAPACITY,
        "the slice is taken and its zone is full",
        {"do": ["capacity {zone} {type}: 0", "preempt {node} without notice"]},
    ),
    OtherDisturbance(
        Disturbance.UNREACHABLE,
        "no supervisor reaches the workers",
        {"do": "vpc: unreachable", "for": UNREACHABLE_TIME},
    ),
)
"""Every other disturbance; each comes at a step between two saves."""


def _other_disturbances(places: RunPlaces) -> Iterator[Moment]:
    for row in OTHERS:
        name, when = row.disturbance.value, at_step(places, row.disturbance.value)
        if when is None:
            continue
        entry = {"name": name, "when": when, **_filled(row.entry, _words(places, when))}
        if row.disturbance == Disturbance.NO_CAPACITY and _has_one_zone(places):
            entry["for"] = FULL_ZONE_TIME
        yield Moment(name, row.title, row.disturbance, (entry,), None, when, row.scenario)


def _words(places: RunPlaces, when: str) -> Mapping[str, str]:
    """What stands for the words in braces; a worker of the first attempt alone is meant.

    The slice that replaces it has sound workers.
    """
    job = places.facts.runs[0].job
    worker = when.rpartition(" of ")[2].replace("*", "*-a1", 1)
    zone, kind = (job.zone, job.accelerator_type) if job else ("*", "*")
    return {"worker": worker, "node": places.node, "zone": zone, "type": kind}


def _filled(value: Any, words: Mapping[str, str]) -> Any:
    """A value of an entry with the words in braces replaced in every text."""
    if isinstance(value, str):
        return value.format(**words)
    if isinstance(value, list):
        return [_filled(item, words) for item in value]
    return {key: _filled(item, words) for key, item in value.items()}


def _has_one_zone(places: RunPlaces) -> bool:
    """Whether the job may go to no other zone."""
    job = places.facts.runs[0].job
    return job is not None and len({*(place.zone for place in job.places), *job.zones}) <= 1
