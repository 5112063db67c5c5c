"""A scenario whose timeline does again what went wrong in a simulator.

What a person did at some time is done again where the program was at that time: after the same
upload, rather than after as many seconds, in which another machine comes less far.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from tpuctl.errors import UsageError
from tpuctl.models.rehearsal.incident import (
    FAULT_BEGAN,
    FAULT_ENDED,
    PREEMPTION,
    READY,
    Incident,
    IncidentHistory,
)
from tpuctl.models.rehearsal.request_log import StorageRequest
from tpuctl.operations.local.timeline_words import escape_glob, ordinal

if TYPE_CHECKING:
    from tpuctl.api.control import ControlApi

OWN_PREFIX = "tpuctl/"
"""Below this the agent of a job writes, whenever it is time to."""
VERBS: Mapping[str, str] = {
    "storage.objects.insert": "upload",
    "storage.multipartUploads.create": "upload",
    "storage.multipartUploads.put": "upload",
    "storage.multipartUploads.complete": "upload",
    "storage.objects.get": "download",
    "storage.objects.delete": "delete",
    "storage.objects.list": "list",
    "storage.objects.compose": "copy",
    "storage.objects.copy": "copy",
    "storage.objects.rewrite": "copy",
    "storage.objects.move": "copy",
}
MAKING = ("upload", "copy")
"""They have succeeded when there is an object."""
BEFORE, FIRST_BYTE, AFTER = "before", "at the first byte of", "after"
_PHASE = re.compile(rf"({BEFORE}|{FIRST_BYTE}|in the middle of|{AFTER}) ")
_SLICE_OF_JOB = re.compile(r"(?P<name>.+)-[0-9a-f]{6}(?=-a\d+(c\d+)?(-\d+)?$)")
"""The id of a job ends with six hexadecimal digits, which another job of its name does not have."""
_CHANCE = re.compile(
    r"(?<![0-9A-Za-z])([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{8,}|\d{10,})(?![0-9A-Za-z])"
)
"""What may be a UUID, a number by chance, or a time, such as the fence of a run."""
_OLDEST_TIME_S = 1_000_000_000


class WorkerOperation(NamedTuple):
    """What a worker did with an object, in one request or several."""

    numbers: Sequence[int]
    """Of its requests."""
    verb: str
    target: str
    """`bucket/name`."""
    caller: str
    began_s: float
    success_s: float | None
    """When it had its effect; None: it had none, or not yet."""
    body_bytes: int


class RequestPlace(NamedTuple):
    """A part of an operation, from which time is counted."""

    at_s: float
    phase: str
    operation: WorkerOperation


class Recording(NamedTuple):
    """What was recorded of a simulator."""

    scenario: Mapping[str, Any]
    knows_requests: bool
    """Whether the simulator logs requests; otherwise times are all that entries can wait for."""


def record_faults(control: "ControlApi") -> Recording:
    """The scenario that does again what went wrong in a running simulator since its start."""
    history, timeline = control.incidents(), control.timeline()
    try:
        requests: Sequence[StorageRequest] = control.requests()
    except UsageError:
        return Recording(recorded_scenario(history, (), timeline), knows_requests=False)
    return Recording(recorded_scenario(history, requests, timeline), knows_requests=True)


def recorded_scenario(
    history: IncidentHistory,
    requests: Iterable[StorageRequest],
    timeline: Iterable[Mapping[str, Any]],
) -> dict[str, Any]:
    """The scenario that a simulator had, with a timeline of what went wrong in it.

    `timeline` has the entries that the simulator itself had, as its control port shows them. Where
    one of them did something at a request, the same request is found again.
    """
    operations = tuple(worker_operations(requests))
    moments = {entry["fired_s"]: entry for entry in timeline if entry["request"]}
    recorded = _RecordedEntries(history, operations, moments)
    settings = {**history.scenario, "faults": list(history.faults)}
    for key in ("timeline", "spot_lifetime_s", *([] if history.faults else ["faults"])):
        settings.pop(key, None)
    return {**settings, "timeline": list(recorded.entries())}


def worker_operations(requests: Iterable[StorageRequest]) -> Iterator[WorkerOperation]:
    """What workers did with objects, in the order in which it began.

    Left out is what failed, and what agents write whenever it is time to.
    """
    parts: dict[int, list[StorageRequest]] = {}
    for request in requests:
        if request.caller and request.method in VERBS:
            parts.setdefault(request.upload or request.number, []).append(request)
    for first in sorted(parts):
        operation = _operation(parts[first])
        is_agents = operation.verb != "download" and f"/{OWN_PREFIX}" in operation.target
        if not is_agents and not _has_failed(parts[first], operation):
            yield operation


def _operation(parts: Sequence[StorageRequest]) -> WorkerOperation:
    first, verb = parts[0], VERBS[parts[0].method]
    made = [part for part in parts if _succeeded(part, verb)]
    return WorkerOperation(
        [part.number for part in parts],
        verb,
        f"{first.bucket}/{first.object}",
        first.caller,
        first.began_s,
        (made[0].ended_s or made[0].began_s) if made else None,
        sum(part.body_bytes for part in parts),
    )


def _succeeded(request: StorageRequest, verb: str) -> bool:
    if verb in MAKING:
        return request.generation > 0
    return 200 <= request.status < 300 and (verb != "download" or request.body_bytes > 0)


def _has_failed(parts: Sequence[StorageRequest], operation: WorkerOperation) -> bool:
    """Whether it ended without effect though nobody cut it off."""
    return operation.success_s is None and parts[-1].status != 0


class _RecordedEntries(NamedTuple):
    history: IncidentHistory
    operations: Sequence[WorkerOperation]
    moments: Mapping[float, Mapping[str, Any]]
    """By the time at which they happened, the entries of the timeline that met a request."""

    def entries(self) -> Iterator[dict[str, Any]]:
        """An entry for each incident, but for the end of a fault that an entry began."""
        found: list[dict[str, Any]] = []
        standing: dict[str, list[tuple[Incident, dict[str, Any]]]] = {}
        for incident in self.history.incidents:
            began = standing.get(incident.subject)
            if incident.kind == FAULT_ENDED and began:
                begin, entry = began.pop()
                entry["for"] = _duration(incident.at_s - begin.at_s)
            elif incident.kind != READY:
                number = len(found) + 1
                entry = {"name": f"recorded-{number}", "when": self._when(incident)}
                found.append({**entry, "do": _action(incident)})
                if incident.kind == FAULT_BEGAN:
                    standing.setdefault(incident.subject, []).append((incident, found[-1]))
        yield from found

    def _when(self, incident: Incident) -> str:
        place = self._met_place(incident) or self._last_place(incident.at_s)
        if place is not None:
            return self._request_text(place)
        readies = [
            each
            for each in self.history.incidents
            if each.kind == READY and each.at_s <= incident.at_s
        ]
        if not readies:
            return f"at {_duration(incident.at_s - self.history.began_s)}"
        last, node = readies[-1], _node_pattern(readies[-1].subject)
        nth = sum(fnmatchcase(each.subject, node) for each in readies)
        delay = _duration(incident.at_s - last.at_s)
        return f"{delay} after {ordinal(nth)} READY of {node}"

    def _met_place(self, incident: Incident) -> RequestPlace | None:
        """The part of a request at which an entry of the simulator's own timeline did this."""
        entry = self.moments.get(incident.at_s)
        phase = _PHASE.match(entry["when"]) if entry else None
        if entry is None or phase is None:
            return None
        met = (each for each in self.operations if entry["request"] in each.numbers)
        return next((RequestPlace(incident.at_s, phase[1], each) for each in met), None)

    def _last_place(self, at_s: float) -> RequestPlace | None:
        """What a worker had just done, or had just begun, at that time."""
        places = [place for each in self.operations for place in _places(each, at_s)]
        return max(places, key=lambda place: (place.at_s, place.operation.numbers), default=None)

    def _request_text(self, place: RequestPlace) -> str:
        phase, operation = place.phase, place.operation
        target = _object_pattern(operation)
        caller = _caller_pattern(operation.caller)
        alike = [
            each
            for each in self.operations
            if each.verb == operation.verb
            and fnmatchcase(each.target, target)
            and fnmatchcase(each.caller, caller)
        ]
        if phase == AFTER:
            alike = sorted(
                (each for each in alike if each.success_s is not None),
                key=lambda each: (each.success_s, each.numbers),
            )
        nth = ordinal(alike.index(operation) + 1)
        return f"{phase} {nth} {operation.verb} of {target} by {caller}"


def _places(operation: WorkerOperation, at_s: float) -> Iterator[RequestPlace]:
    """The parts of an operation that lie before a time."""
    if operation.began_s > at_s:
        return
    if operation.success_s is not None and operation.success_s <= at_s:
        yield RequestPlace(operation.success_s, AFTER, operation)
        return
    has_sent = operation.success_s is None and operation.body_bytes > 0
    yield RequestPlace(operation.began_s, FIRST_BYTE if has_sent else BEFORE, operation)


def _action(incident: Incident) -> str:
    if incident.kind == FAULT_ENDED:
        return f"end {incident.subject}"
    if incident.kind == FAULT_BEGAN:
        return _fault_pattern(incident.subject)
    assert incident.kind == PREEMPTION
    notice_s = incident.notice_s
    notice = f"with notice of {_duration(notice_s)}" if notice_s else "without notice"
    return f"preempt {_node_pattern(incident.subject)} {notice}"


def _fault_pattern(fault: str) -> str:
    """The text of a fault, of a worker of any job of that name."""
    if match := re.match(r"(?P<words>(worker|keys) )(?P<node>[^/:\s]+)", fault):
        return f"{match['words']}{_job_pattern(match['node'])}{fault[match.end() :]}"
    return fault


def _node_pattern(node: str) -> str:
    return _job_pattern(escape_glob(node))


def _job_pattern(node: str) -> str:
    """The slice of a job of any id, for that of a job; other nodes are meant by their ids."""
    return _SLICE_OF_JOB.sub(lambda match: f"{match['name']}-*", node)


def _caller_pattern(caller: str) -> str:
    node, _, worker = caller.rpartition("/")
    return f"{_node_pattern(node)}/{worker}"


def _object_pattern(operation: WorkerOperation) -> str:
    """The name of an object, with `*` for the id of its worker's job and for what is by chance."""
    target = escape_glob(operation.target)
    match = _SLICE_OF_JOB.match(operation.caller.rpartition("/")[0])
    named = target.replace(match[0], f"{match['name']}-*") if match else target
    return _CHANCE.sub(lambda token: "*" if _is_by_chance(token[0]) else token[0], named)


def _is_by_chance(token: str) -> bool:
    """Whether it differs from run to run; the number of a step has many zeros before it."""
    return not token.isdigit() or int(token) >= _OLDEST_TIME_S


def _duration(seconds: float) -> str:
    return f"{max(0.0, seconds):.3f}".rstrip("0").rstrip(".") + "s"
