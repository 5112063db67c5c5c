"""What is noted of a slice, and how the facts of one slice become its life.

A fact is a line of the ledger, about the slice with a node id (`slice`), of one of four kinds
(`what`):

- `is`: what a slice is for as long as it lives: name, zone, type, creation, request, job, owner;
- `at`: a moment that the API itself has told: `ready`, `stop`, `delete` or `fail`;
- `seen`: a state that somebody saw at a moment; `watched` says that the change was seen as it came;
- `labels`: the labels that a slice had at a moment.

Facts are a set: in whatever order they come, however often and from however many observers, the
life is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from itertools import pairwise
from typing import Any, NamedTuple

from tpuctl.models.money.slice_life import BilledInterval, BillingEdge, SliceIdentity, SliceLife
from tpuctl.models.node import LOST_STATES, NodeState, Provisioning

KIND = "slices"
"""What the ledger calls these lines."""
ABSENT = "ABSENT"
"""The state of a node that a list does not have any more."""
ENDED_STATES = frozenset({ABSENT, NodeState.DELETING, *LOST_STATES})
STARTING_STATES = frozenset({NodeState.CREATING, NodeState.STARTING})
WATCH_S = 60.0
"""A watcher looks at least so often: what it saw come is at most so old."""
CLOCK_SLACK_S = 2.0
"""What was seen so near to a moment of the API's own gives way to it: clocks differ."""
USUAL_START_S = 180.0
"""How long a slice takes to become READY where nobody saw it: three minutes at most, as a rule."""


class ApiMoment(StrEnum):
    """What the API's own timestamps tell."""

    READY = "ready"
    """From here on it is READY: the end of its creation, or of a start."""
    STOP = "stop"
    """From here on it is not READY, and before it was: a stop was asked for."""
    DELETE = "delete"
    """From here on it is nothing any more: its deletion was asked for."""
    FAIL = "fail"
    """Its creation failed: it never was READY."""


class Sighting(NamedTuple):
    """A state that somebody saw."""

    at_s: float
    state: str
    is_watched: bool = False
    """Whoever saw it looks all the time, and it was not so before."""


@dataclass(slots=True)
class SliceFacts:
    """All facts of one slice that were read so far."""

    identity: SliceIdentity
    moments: set[tuple[float, str]] = field(default_factory=set)
    sightings: set[Sighting] = field(default_factory=set)
    labels: set[tuple[float, tuple[tuple[str, str], ...]]] = field(default_factory=set)


Fact = Mapping[str, Any]


def identity_fact(identity: SliceIdentity) -> dict[str, Any]:
    """The fact of what a slice is."""
    known = {each.name: getattr(identity, each.name) for each in fields(identity)[1:]}
    return {"slice": identity.node_id, "what": "is", **{k: v for k, v in known.items() if v}}


def moment_fact(node_id: str, moment: ApiMoment, at_s: float) -> dict[str, Any]:
    """The fact of a moment that the API has told."""
    return {"slice": node_id, "what": "at", "moment": moment.value, "at_s": _rounded(at_s)}


def sighting_fact(node_id: str, seen: Sighting) -> dict[str, Any]:
    """The fact of a state that was seen."""
    watched = {"watched": True} if seen.is_watched else {}
    at_s = _rounded(seen.at_s)
    return {"slice": node_id, "what": "seen", "state": str(seen.state), "at_s": at_s, **watched}


def labels_fact(node_id: str, labels: Mapping[str, str], at_s: float) -> dict[str, Any]:
    """The fact of the labels that a slice had."""
    return {"slice": node_id, "what": "labels", "labels": dict(labels), "at_s": _rounded(at_s)}


def collect_facts(
    lines: Iterable[Fact], known: dict[str, SliceFacts] | None = None
) -> dict[str, SliceFacts]:
    """The facts of each slice by its node id, added to those that are `known`.

    A line that this version does not understand is left out: a newer one may have written it.
    """
    found = {} if known is None else known
    for line in lines:
        node_id = line.get("slice")
        if not isinstance(node_id, str) or not node_id:
            continue
        facts = found.get(node_id)
        if facts is None:
            facts = found[node_id] = SliceFacts(SliceIdentity(node_id))
        try:
            _READERS[line["what"]](facts, line)
        except (KeyError, TypeError, ValueError, AttributeError):
            continue
    return found


def prune_facts(lines: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The lines of one observer without looks in the middle of many that saw the same."""
    looks: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in lines:
        if line.get("what") in ("seen", "labels") and not line.get("watched"):
            looks.setdefault((str(line.get("slice")), line["what"]), []).append(line)
        else:
            yield line
    for (_, what), found in looks.items():
        found.sort(key=lambda line: (line["at_s"], str(line.get("state"))))
        told = [None, *(line.get("state", line.get("labels")) for line in found), None]
        for before, line, now, after in zip(told, found, told[1:], told[2:], strict=False):
            is_last = what == "seen" and after != now
            if before != now or is_last:
                yield line


def facts_as_lines(facts: SliceFacts) -> Iterator[dict[str, Any]]:
    """The lines that `collect_facts` makes the same facts of."""
    node_id = facts.identity.node_id
    yield identity_fact(facts.identity)
    yield from (moment_fact(node_id, ApiMoment(kind), at_s) for at_s, kind in facts.moments)
    yield from (sighting_fact(node_id, seen) for seen in facts.sightings)
    yield from (labels_fact(node_id, dict(labels), at_s) for at_s, labels in facts.labels)


def is_deleted(facts: SliceFacts) -> bool:
    """Whether the API itself has told that a slice is gone: nothing more will be learnt of it."""
    return any(kind in (ApiMoment.DELETE, ApiMoment.FAIL) for _, kind in facts.moments)


def life_of(facts: SliceFacts, now_s: float) -> SliceLife:
    """The life of a slice up to `now_s` (seconds since 1970, by the clock of the cloud)."""
    walk = _Walk(_watched(facts))
    for point in _points(facts):
        walk.pass_by(point)
    intervals = tuple(walk.ended(now_s))
    last_state = max(facts.sightings, default=Sighting(0.0, ""), key=lambda seen: seen.at_s).state
    return SliceLife(
        facts.identity,
        intervals,
        tuple(_label_times(facts)),
        is_running=bool(intervals) and intervals[-1].is_open,
        is_ended=is_deleted(facts) or last_state in ENDED_STATES,
    )


class _Point(NamedTuple):
    """Something that is known of a moment, in the order in which it counts there."""

    at_s: float
    rank: int
    kind: str
    """An ApiMoment, or `up`, `down`."""
    is_starting: bool = False
    """For `down`: it may become READY soon."""
    is_gone: bool = False


_OTHER_SIDE: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    ApiMoment.READY: (frozenset({NodeState.READY}), STARTING_STATES),
    ApiMoment.STOP: (
        frozenset({NodeState.STOPPING, NodeState.STOPPED}),
        frozenset({NodeState.READY}),
    ),
    ApiMoment.DELETE: (frozenset({NodeState.DELETING, ABSENT}), frozenset({NodeState.READY})),
    ApiMoment.FAIL: (frozenset(), frozenset()),
}
"""The states that a slice cannot have just before a moment, and just after it."""
_UP, _DOWN = "up", "down"
_RANKS: Mapping[str, int] = {
    ApiMoment.STOP: 0,
    _DOWN: 1,
    ApiMoment.READY: 2,
    _UP: 3,
    ApiMoment.DELETE: 4,
}


def _points(facts: SliceFacts) -> list[_Point]:
    """What is known of the slice, in the order of time, without what cannot be."""
    exact = sorted(facts.moments)
    if any(kind == ApiMoment.FAIL for _, kind in exact):
        return []
    created_s = facts.identity.created_s
    deleted_s = min((at for at, kind in exact if kind == ApiMoment.DELETE), default=None)
    present_s = max((seen.at_s for seen in facts.sightings if seen.state != ABSENT), default=0.0)
    points = [] if created_s is None else [_Point(created_s, -1, _DOWN, is_starting=True)]
    points += [_Point(at, _RANKS[kind], kind) for at, kind in exact if at != deleted_s]
    for seen in sorted(facts.sightings):
        is_too_late = deleted_s is not None and seen.at_s >= deleted_s
        is_too_early = created_s is not None and seen.at_s < created_s
        is_wrong = seen.state == ABSENT and seen.at_s < present_s
        if not (is_too_late or is_too_early or is_wrong or _is_contradicted(seen, exact)):
            points.append(_seen_point(seen))
    if deleted_s is not None:
        points = [point for point in points if point.at_s <= deleted_s]
        points.append(_Point(deleted_s, _RANKS[ApiMoment.DELETE], ApiMoment.DELETE, is_gone=True))
    return sorted(points)


def _seen_point(seen: Sighting) -> _Point:
    if seen.state == NodeState.READY:
        return _Point(seen.at_s, _RANKS[_UP], _UP)
    return _Point(
        seen.at_s,
        _RANKS[_DOWN],
        _DOWN,
        is_starting=seen.state in STARTING_STATES,
        is_gone=seen.state in ENDED_STATES,
    )


def _is_contradicted(seen: Sighting, exact: Iterable[tuple[float, str]]) -> bool:
    """Whether it belongs to the other side of a moment of the API's own that is near to it."""
    for at_s, kind in exact:
        if abs(seen.at_s - at_s) <= CLOCK_SLACK_S:
            before, after = _OTHER_SIDE[kind]
            if seen.state in (before if seen.at_s < at_s else after):
                return True
    return False


def _watched(facts: SliceFacts) -> Mapping[str, tuple[float, ...]]:
    """When a watcher saw it become READY, and when it saw that end."""
    if not any(seen.is_watched for seen in facts.sightings):
        return _UNWATCHED
    times: dict[str, list[float]] = {_UP: [], _DOWN: []}
    for seen in facts.sightings:
        if seen.is_watched:
            times[_UP if seen.state == NodeState.READY else _DOWN].append(seen.at_s)
    return {kind: tuple(sorted(found)) for kind, found in times.items()}


_UNWATCHED: Mapping[str, tuple[float, ...]] = {_UP: (), _DOWN: ()}


class _Walk:
    """Goes along the points of a slice, and keeps when it was billed."""

    def __init__(self, watched: Mapping[str, tuple[float, ...]]) -> None:
        self._watched = watched
        self._intervals: list[BilledInterval] = []
        self._begin: BillingEdge | None = None
        self._last: _Point | None = None

    def pass_by(self, point: _Point) -> None:
        """Take one point more, which is later than those before."""
        if self._begin is None:
            self._pass_while_down(point)
        else:
            self._pass_while_up(point, self._begin)
        self._last = point

    def ended(self, now_s: float) -> Iterator[BilledInterval]:
        """The intervals; one that has no end goes on up to now."""
        yield from self._intervals
        if self._begin is not None and self._last is not None and self._begin.at_s <= now_s:
            seen_s = min(self._last.at_s, now_s)
            is_fresh = now_s - seen_s <= WATCH_S
            end = BillingEdge(now_s, now_s if is_fresh else seen_s, now_s)
            yield BilledInterval(self._begin, end, is_open=True)

    def _pass_while_down(self, point: _Point) -> None:
        if point.kind == ApiMoment.READY:
            self._begin = BillingEdge.exact(point.at_s)
        elif point.kind == _UP:
            self._begin = self._begin_before(point)
        elif point.kind == ApiMoment.STOP and self._last is not None:
            self._close(self._begin_before(point), BillingEdge.exact(point.at_s))
        elif point.is_gone and self._last is not None and self._last.is_starting:
            # It may have been READY for a while; nothing says so.
            begin = BillingEdge(point.at_s, self._last.at_s, point.at_s)
            self._close(begin, BillingEdge.exact(point.at_s))

    def _pass_while_up(self, point: _Point, begin: BillingEdge) -> None:
        if point.kind == _UP or (point.kind == ApiMoment.READY and point.at_s <= begin.at_s):
            return
        if point.kind in (ApiMoment.STOP, ApiMoment.DELETE):
            self._close(begin, BillingEdge.exact(point.at_s))
        else:
            self._close(begin, self._end_before(point))
        self._begin = BillingEdge.exact(point.at_s) if point.kind == ApiMoment.READY else None

    def _close(self, begin: BillingEdge, end: BillingEdge) -> None:
        self._intervals.append(BilledInterval(begin, end))

    def _begin_before(self, point: _Point) -> BillingEdge:
        """When it became READY, which it was not at the last point and is, or just was, at this."""
        last = self._last
        if last is None:
            return BillingEdge(point.at_s, point.at_s - WATCH_S, point.at_s)
        if self._is_watched(_UP, point.at_s):
            return BillingEdge(point.at_s, max(last.at_s, point.at_s - WATCH_S), point.at_s)
        at_s = (last.at_s + point.at_s) / 2
        if last.is_starting:
            at_s = min(at_s, last.at_s + USUAL_START_S)
        return BillingEdge(at_s, last.at_s, point.at_s)

    def _end_before(self, point: _Point) -> BillingEdge:
        """When it ceased to be READY, which it was at the last point and is not at this one."""
        last_s = self._last.at_s if self._last is not None else point.at_s
        if self._is_watched(_DOWN, point.at_s):
            return BillingEdge(point.at_s, max(last_s, point.at_s - WATCH_S), point.at_s)
        return BillingEdge((last_s + point.at_s) / 2, last_s, point.at_s)

    def _is_watched(self, kind: str, at_s: float) -> bool:
        return any(at_s <= seen_s <= at_s + WATCH_S for seen_s in self._watched[kind])


def _label_times(facts: SliceFacts) -> Iterator[tuple[float, Mapping[str, str]]]:
    """The labels from each moment on at which others were first seen."""
    told = sorted(facts.labels)
    if told:
        yield told[0][0], dict(told[0][1])
    for (_, before), (at_s, labels) in pairwise(told):
        if labels != before:
            yield at_s, dict(labels)


_MOMENTS = frozenset(each.value for each in ApiMoment)
_KNOWN_PROVISIONING = ("", Provisioning.UNKNOWN, Provisioning.ON_DEMAND)
"""From the least that may be known: what is flex-start looks like on demand in most answers."""


def _merge_identity(facts: SliceFacts, line: Fact) -> None:
    known = facts.identity
    told = {name: str(line[name]) for name in _TEXTS if line.get(name)}
    merged = {name: max(getattr(known, name), text) for name, text in told.items()}
    if "provisioning" in told:
        merged["provisioning"] = max(known.provisioning, told["provisioning"], key=_provision_key)
    if line.get("created_s"):
        times = {float(line["created_s"]), known.created_s}
        merged_s = min(each for each in times if each is not None)
        facts.identity = replace(known, **merged, created_s=merged_s)
    elif any(getattr(known, name) != text for name, text in merged.items()):
        facts.identity = replace(known, **merged)


def _provision_key(name: str) -> tuple[int, str]:
    known = len(_KNOWN_PROVISIONING)
    return (_KNOWN_PROVISIONING.index(name) if name in _KNOWN_PROVISIONING else known), name


def _add_moment(facts: SliceFacts, line: Fact) -> None:
    moment = line["moment"]
    if moment in _MOMENTS:
        facts.moments.add((float(line["at_s"]), moment))


def _add_sighting(facts: SliceFacts, line: Fact) -> None:
    seen = Sighting(float(line["at_s"]), str(line["state"]), bool(line.get("watched")))
    facts.sightings.add(seen)


def _add_labels(facts: SliceFacts, line: Fact) -> None:
    labels = tuple(sorted((str(key), str(value)) for key, value in line["labels"].items()))
    facts.labels.add((float(line["at_s"]), labels))


_TEXTS = tuple(
    each.name for each in fields(SliceIdentity) if each.name not in ("node_id", "created_s")
)
_READERS = {"is": _merge_identity, "at": _add_moment, "seen": _add_sighting, "labels": _add_labels}


def _rounded(at_s: float) -> float:
    """A moment to the millisecond, so that the same one is the same line."""
    return round(at_s, 3)
