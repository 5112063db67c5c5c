"""The record of one service as its controller writes it: over the generation that it read last."""

import asyncio
from dataclasses import dataclass, replace

from tpuctl.errors import PreconditionError
from tpuctl.jobs.interfaces import Clocks
from tpuctl.jobs.leases.lease import Lease, LeaseLostError
from tpuctl.jobs.services import service_store
from tpuctl.jobs.services.service_store import StoredService
from tpuctl.models.inference.service_record import ServiceRecord
from tpuctl.store import Store

RECHECK_S = 5.0
"""Who changes a record notifies the holder of its lease; this is for who does not."""


@dataclass(slots=True)
class ServiceWriter:
    """A service's record as the bucket has it."""

    store: Store
    """Behind the fence of the lease."""
    lease: Lease
    clocks: Clocks
    stored: StoredService
    checked: float = float("-inf")

    @property
    def record(self) -> ServiceRecord:
        """The record as it was last read or written."""
        return self.stored.record

    async def claim(self) -> None:
        """The first write under our fence: from here on an earlier holder's writes fail.

        Raises LeaseLostError, TransientError and its kin.
        """
        while not await self.save(replace(self.record, fence=self.lease.fence)):
            continue

    async def save(self, record: ServiceRecord) -> bool:
        """Write the record; False when somebody else's change, which is read now, came before.

        Raises LeaseLostError.
        """
        try:
            self.stored = await asyncio.to_thread(
                service_store.save, self.store, record, self.stored.generation
            )
        except PreconditionError:
            await self._load()
            return False
        return True

    async def check_for_changes(self) -> None:
        """Read the record again when it was changed by others. Raises LeaseLostError."""
        now = self.clocks.monotonic()
        if now - self.checked < RECHECK_S:
            return
        self.checked = now
        name = self.record.name
        found = await asyncio.to_thread(service_store.generation, self.store, name)
        if found != self.stored.generation:
            await self._load()

    def recheck(self) -> None:
        """Read the record at the next turn: somebody has changed it."""
        self.checked = float("-inf")

    async def _load(self) -> None:
        self.stored = await asyncio.to_thread(service_store.load, self.store, self.record.name)
        if self.record.fence > self.lease.fence:
            raise LeaseLostError
