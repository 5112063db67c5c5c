"""Tells all who use the bucket what the requests of a job met; the job never waits long for it."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from tpuctl.errors import TpuctlError
from tpuctl.jobs.leases.lease import LeaseLostError
from tpuctl.jobs.policy.capacity_events import capacity_events
from tpuctl.jobs.policy.observation import SliceRefusal
from tpuctl.ledger import refusals
from tpuctl.ledger.brief_write import LONGEST_S
from tpuctl.models.capacity.capacity_event import CapacityEvent, RefusalCause
from tpuctl.models.job import JobRecord
from tpuctl.store import Store


@dataclass(slots=True)
class CapacityReporter:
    """Notes the events of one job's record that are new since the last look."""

    store: Store
    """Behind the fence of the lease."""
    observer: str
    """Empty: nothing is noted."""
    record: JobRecord
    """As it was at the last look; what it shows was noted by whoever looked after the job."""
    causes: dict[str, RefusalCause] = field(default_factory=dict)
    """Why requests were refused, by their names: the record tells fewer kinds."""
    noted: set[tuple[str, str]] = field(init=False)
    writing: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.noted = {(event.key, event.kind) for event in capacity_events(self.record)}

    def hear(self, seen: Iterable[SliceRefusal]) -> None:
        """Remember why requests are refused, until the record says that they were."""
        for refusal in seen:
            if refusal.cause is not None:
                self.causes[refusal.queued_resource] = refusal.cause

    async def report(self, record: JobRecord) -> None:
        """Note what the record shows and did not show before; waits two seconds at most."""
        if record is self.record or not self.observer:
            return
        self.record = record
        events = {(each.key, each.kind): each for each in capacity_events(record, self.causes)}
        new = [event for key, event in events.items() if key not in self.noted]
        self.noted.update(events)
        if new:
            task = asyncio.create_task(asyncio.to_thread(self._write, new))
            self.writing.add(task)
            task.add_done_callback(self.writing.discard)
            await asyncio.wait({task}, timeout=LONGEST_S)

    def _write(self, events: list[CapacityEvent]) -> None:
        with suppress(TpuctlError, LeaseLostError, OSError):
            refusals.note_events(self.store, self.observer, events)
