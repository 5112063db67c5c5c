"""The long-running operations, found by name and by the request id that began them."""

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from localsim.cloud.db.collection import Collection
from localsim.cloud.db.journal import Journal
from localsim.cloud.model.operations import Operation, Verb

RETENTION_S = 30 * 86400.0
"""How long an operation can be asked for after its end; assumed, Google says no number."""


class OperationLog(Collection[Operation]):
    """Operations; one is removed RETENTION_S after its end."""

    def __init__(self, journal: Journal, check: Callable[[Operation], object]) -> None:
        """Read the table; `check` is that of every collection."""
        super().__init__(journal, "tpu_operations", Operation, check)
        self._by_request = self.index(_request)
        self._ends = [(each.end_time_s, each.name) for each in self if each.end_time_s is not None]
        heapify(self._ends)

    def repeated(self, target: str, verb: Verb, request_id: str) -> Operation | None:
        """The operation that was begun with this request id for this target and verb, or None."""
        return next(iter(self._by_request[target, verb, request_id]), None)

    def has_expired(self, now_s: float) -> bool:
        """Whether `forget` would remove an operation."""
        return bool(self._ends) and self._ends[0][0] <= now_s - RETENTION_S

    def forget(self, now_s: float) -> None:
        """Remove the operations that ended more than RETENTION_S ago."""
        while self.has_expired(now_s):
            end_time_s, name = heappop(self._ends)
            operation = self.find(name)
            if operation is not None and operation.end_time_s == end_time_s:  # else taken back
                self.remove(name)

    def _set(self, name: str, resource: Operation | None) -> None:
        if resource is not None and resource.end_time_s is not None:
            heappush(self._ends, (resource.end_time_s, name))
        super()._set(name, resource)


def _request(operation: Operation) -> tuple[tuple[str, Verb, str], ...]:
    if not operation.request_id:
        return ()
    return ((operation.target, operation.verb, operation.request_id),)
