"""What a timeline says: when something happens, and what."""

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

ANY_WORKER = "*/*"


class EntryState(StrEnum):
    """How far an entry of the timeline has come; public on the control port."""

    WAITING = "waiting"
    """The entry that it follows has not happened."""
    ARMED = "armed"
    DONE = "done"


class RequestPhase(StrEnum):
    """The part of a request of Cloud Storage at which something happens."""

    BEFORE = "before"
    """Nothing of its body is stored or sent."""
    FIRST_BYTE = "at the first byte of"
    MIDDLE = "in the middle of"
    """Half of its body has passed, 64 KiB where nobody knows how long it is, or all of it."""
    AFTER = "after"
    """It has had its effect, and its answer is held."""


class RequestVerb(StrEnum):
    """What a request of Cloud Storage does with an object."""

    UPLOAD = "upload"
    DOWNLOAD = "download"
    DELETE = "delete"
    LIST = "list"
    COPY = "copy"


@dataclass(frozen=True, slots=True)
class TimeTrigger:
    """So many simulated seconds after the entry was armed; at the top: after the beginning."""

    after_s: float


@dataclass(frozen=True, slots=True)
class ReadyTrigger:
    """So long after nodes whose ids match have become READY `nth` times together."""

    node: str
    nth: int
    after_s: float = 0.0

    def concerns(self, node_id: str) -> bool:
        """Whether it counts a node of that id."""
        return fnmatchcase(node_id, self.node)


@dataclass(frozen=True, slots=True)
class RequestTrigger:
    """A part of the `nth` request that does this with objects whose `bucket/name` matches."""

    phase: RequestPhase
    nth: int
    verb: RequestVerb
    target: str
    by: str | None = None
    """The pattern of `NODE/WORKER`; None: any worker. `*` alone: whoever sends it."""

    def concerns(self, verb: RequestVerb, target: str, caller: str) -> bool:
        """Whether it counts a request for `bucket/name`; `caller` is empty outside of workers."""
        is_sender = bool(caller) if self.by is None else fnmatchcase(caller, self.by)
        return verb is self.verb and is_sender and fnmatchcase(target, self.target)


@dataclass(frozen=True, slots=True)
class LineTrigger:
    """A line in which the program of a worker writes what matches the expression."""

    pattern: str
    worker: str
    """`NODE/WORKER`; both may hold `*`."""


Trigger = TimeTrigger | ReadyTrigger | RequestTrigger | LineTrigger


@dataclass(frozen=True, slots=True)
class Preemption:
    """The READY nodes whose ids match are taken away."""

    node: str
    notice_s: float | None = None
    """None draws the notice from the scenario."""


@dataclass(frozen=True, slots=True)
class FaultBegin:
    """A fault begins."""

    fault: str


@dataclass(frozen=True, slots=True)
class FaultEnd:
    """A fault ends that was written so."""

    fault: str


@dataclass(frozen=True, slots=True)
class Nothing:
    """It is only noted that the moment has come."""


EntryAction = Preemption | FaultBegin | FaultEnd | Nothing


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One entry as it was written, and what that means."""

    name: str
    when: str
    do: tuple[str, ...]
    trigger: Trigger
    actions: tuple[EntryAction, ...]
    for_s: float | None = None
    """How long its faults last; None: until they are ended."""
    parent: str = ""
    """The entry that it follows; empty at the top."""
