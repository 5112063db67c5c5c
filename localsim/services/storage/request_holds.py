"""Holds requests of Cloud Storage at the moments that a timeline waits for.

While an entry's actions are carried out the request stands still. When its sender is not there any
more afterwards, the request ends without effect, however much of it has arrived already.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from localsim.rules.cloud import Cloud
from localsim.rules.scenario.timeline_types import RequestPhase, RequestTrigger, RequestVerb

T = TypeVar("T")
UNKNOWN_MIDDLE_BYTES = 64 * 1024
"""Where the middle of a body is whose length nobody knows."""


class ActingCloud(Protocol):
    """The cloud, and what acts on its workers."""

    @property
    def cloud(self) -> Cloud:
        """The cloud, to look at."""

    async def run(self, action: Callable[[Cloud], T]) -> T:
        """Change the cloud; returns when that is on disk."""

    async def follow_through(self) -> None:
        """Return when the workers have suffered what has happened."""


@dataclass(frozen=True, slots=True)
class HeldEntry:
    """An entry of the timeline whose moment lies in one request or upload."""

    name: str
    phase: RequestPhase
    key: object
    """The upload of several requests, or the one request."""

    def is_reached(self, position: int, total_bytes: int | None) -> bool:
        """Whether its moment has come when so many bytes of the body have passed."""
        match self.phase:
            case RequestPhase.BEFORE:
                return True
            case RequestPhase.FIRST_BYTE:
                return position > 0
            case RequestPhase.MIDDLE:
                half = UNKNOWN_MIDDLE_BYTES if total_bytes is None else total_bytes / 2
                return position > 0 and position >= half
        return False


@dataclass(frozen=True, slots=True)
class RequestHolds:
    """Finds the entries whose moment has come, and lets them happen."""

    world: ActingCloud
    is_up: Callable[[str], bool]
    """Whether the worker `NODE/WORKER` runs, and has a network."""
    _held: dict[str, HeldEntry] = field(default_factory=dict)
    _seen_uploads: set[str] = field(default_factory=set)

    @property
    def are_wanted(self) -> bool:
        """Whether any entry waits for a request."""
        return bool(self.world.cloud.waiting_for_requests())

    async def begin(
        self, verb: RequestVerb, target: str, caller: str, key: object
    ) -> Sequence[HeldEntry]:
        """Count a request for `bucket/name`, and return the entries whose moment is in it.

        An upload of several requests counts once.
        """
        if isinstance(key, str):
            if key in self._seen_uploads:
                return [each for each in self._held.values() if each.key == key]
            self._seen_uploads.add(key)
        if not self._concerns(verb, target, caller):
            return ()

        def see(cloud: Cloud) -> Sequence[HeldEntry]:
            names = cloud.see_request(verb, target, caller, skip=self._held.keys())
            phases = {
                each.entry.name: each.entry.trigger.phase
                for each in cloud.waiting_for_requests()
                if isinstance(each.entry.trigger, RequestTrigger)
            }
            found = {name: HeldEntry(name, phases[name], key) for name in names}
            self._held.update(found)
            return tuple(found.values())

        return await self.world.run(see)

    async def end(self, verb: RequestVerb, target: str, caller: str) -> Sequence[str]:
        """Count a request that has had its effect; the entries whose moment that is."""
        if not self._concerns(verb, target, caller):
            return ()
        return await self.world.run(
            lambda cloud: cloud.see_request(verb, target, caller, has_ended=True)
        )

    async def fire(self, name: str, number: int) -> None:
        """Let an entry happen; returns when the workers have suffered it."""
        self._held.pop(name, None)
        await self.world.run(lambda cloud: cloud.let_entry_come(name, number))
        await self.world.follow_through()

    def release(self, key: object) -> None:
        """Let the entries wait for another request: this one ended before their moment."""
        for name in [each.name for each in self._held.values() if each.key == key]:
            del self._held[name]

    def clear(self) -> None:
        """Forget every request."""
        self._held.clear()
        self._seen_uploads.clear()

    def _concerns(self, verb: RequestVerb, target: str, caller: str) -> bool:
        """Whether a request may matter to an entry that waits."""
        return any(
            isinstance(each.entry.trigger, RequestTrigger)
            and each.entry.trigger.concerns(verb, target, caller)
            for each in self.world.cloud.waiting_for_requests()
        )
