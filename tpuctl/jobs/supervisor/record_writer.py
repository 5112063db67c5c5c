"""The record of one job as its controller writes it: over the generation that it read last."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tpuctl.errors import PreconditionError
from tpuctl.jobs.interfaces import Clocks
from tpuctl.jobs.leases.lease import Lease, LeaseLostError
from tpuctl.jobs.policy.attempts import restart_stopping_wait
from tpuctl.jobs.record import record_store as records
from tpuctl.jobs.record.record_store import StoredRecord
from tpuctl.models.job import JobRecord
from tpuctl.store import Store

RECHECK_S = 5.0
"""Who changes a record rings its lease; this is for who does not."""
PROGRESS_S = 45.0
"""Steps and the like are written this often: with the heartbeat, 20 jobs make 2 writes a minute."""


VOLATILE_FIELDS: Mapping[str, object] = {
    "rss_bytes": None,
    "unreachable_s": 0.0,
    "active_s": None,
    "quiet_s": 0.0,
}
"""Fields of a worker's report that are never the same twice, though nothing happens."""
PROGRESS_FIELDS: Mapping[str, object] = {
    **VOLATILE_FIELDS,
    "step": None,
    "metrics": {},
    "message": "",
}
"""Fields of a worker's report that change all the time while a job runs well."""


@dataclass(slots=True)
class RecordWriter:
    """The record as its controller has it, and as it was last written."""

    store: Store
    """Behind the fence of the lease."""
    lease: Lease
    clocks: Clocks
    stored: StoredRecord
    """The generation is the one that the bucket has."""
    on_written: Callable[[], None] = lambda: None
    """Called after every write."""
    written: JobRecord | None = None
    written_s: float = 0.0
    checked_s: float = float("-inf")

    @property
    def record(self) -> JobRecord:
        """The record as the controller has it."""
        return self.stored.record

    async def claim(self, change: Callable[[JobRecord], JobRecord] = lambda record: record) -> None:
        """The first write under our fence: from here on an earlier holder's writes fail.

        `change` adds to the record under that fence. Raises LeaseLostError, TransientError and its
        kin.
        """
        while True:
            if self.record.fence > self.lease.fence:
                raise LeaseLostError
            try:
                open_again = replace(self.record, trouble=None, left_s=None)
                known = restart_stopping_wait(open_again, self.clocks.now())
                await self._write(change(replace(known, fence=self.lease.fence)))
                return
            except PreconditionError:  # the last write of an earlier holder, or a wish
                self.stored = await self._load()

    async def save(self, record: JobRecord) -> None:
        """Write the record, merged with a cancellation by others. Raises LeaseLostError."""
        while True:
            try:
                return await self._write(record)
            except PreconditionError:
                record = await self._merged(record)

    def keep(self, record: JobRecord) -> None:
        """Keep the record here without writing it."""
        self.stored = StoredRecord(record, self.stored.generation)

    async def check_for_changes(self) -> None:
        """Read the record again when it was changed by others. Raises LeaseLostError."""
        if self.clocks.monotonic() - self.checked_s < RECHECK_S:
            return
        self.checked_s = self.clocks.monotonic()
        found = await asyncio.to_thread(records.generation, self.store, self.record.job_id)
        if found != self.stored.generation:
            self.keep(await self._merged(self.record))

    def recheck(self) -> None:
        """Read the record at the next turn: somebody has changed it."""
        self.checked_s = float("-inf")

    def is_news(self, record: JobRecord) -> bool:
        """Whether more than progress has changed since the record was written."""
        return self.written is None or _stripped(record, PROGRESS_FIELDS) != _stripped(
            self.written, PROGRESS_FIELDS
        )

    def is_due(self, record: JobRecord) -> bool:
        """Whether there is progress, and the last write is long enough ago."""
        return self.clocks.monotonic() - self.written_s >= PROGRESS_S and self._has_moved(record)

    async def save_progress(self) -> None:
        """Write what is new here before the supervisor ends. Raises LeaseLostError.

        A job that sends messages gets the time, too: the next supervisor says since when nobody
        looked after it.
        """
        record = self.record
        if record.spec.notify and not record.is_settled:
            record = replace(record, left_s=self.clocks.now())
        if self._has_moved(record):
            await self.save(record)

    def _has_moved(self, record: JobRecord) -> bool:
        if self.written is None:
            return False
        return _stripped(record, VOLATILE_FIELDS) != _stripped(self.written, VOLATILE_FIELDS)

    async def _merged(self, record: JobRecord) -> JobRecord:
        """The record with the cancellation that somebody without the lease may have written.

        Raises LeaseLostError.
        """
        self.stored = await self._load()
        if self.record.fence > self.lease.fence:
            raise LeaseLostError
        return replace(record, cancel_requested_s=self.record.cancel_requested_s)

    async def _load(self) -> StoredRecord:
        return await asyncio.to_thread(records.load, self.store, self.lease.job_id)

    async def _write(self, record: JobRecord) -> None:
        self.stored = await asyncio.to_thread(
            records.save, self.store, record, self.stored.generation
        )
        self.written, self.written_s = record, self.clocks.monotonic()
        self.on_written()


def _stripped(record: JobRecord, fields: Mapping[str, object]) -> JobRecord:
    """A record without those fields of its newest attempt's workers."""
    attempt = record.attempt
    if attempt is None:
        return record
    workers = tuple(replace(report, **fields) for report in attempt.workers)  # type: ignore[arg-type]
    newest = replace(attempt, workers=workers)
    if fields is not VOLATILE_FIELDS:
        newest = replace(newest, last_step=0, step_times={}, save_waits=())
    return replace(record, attempts=(*record.attempts[:-1], newest))
