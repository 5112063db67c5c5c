"""Which proxies of a service live, and what they say: told by the generations of their reports."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from tpuctl.errors import PreconditionError
from tpuctl.jobs.services import service_store
from tpuctl.jobs.services.service_observation import SeenReport
from tpuctl.jobs.services.service_store import StoredReport
from tpuctl.store import Store

DEAD_AFTER_S = 30.0
"""A report that is the same for so long is of a proxy that died."""
REMOVED_AFTER_S = 600.0


@dataclass(frozen=True, slots=True)
class _Sighting:
    stored: StoredReport
    changed: float
    """When it was first seen as it is, by this machine's monotonic clock."""
    first_seen_s: float


@dataclass(slots=True)
class ProxyWatcher:
    """Tells live proxies from dead ones by this machine's monotonic time."""

    monotonic: Callable[[], float]
    seen: dict[str, _Sighting] = field(default_factory=dict)

    def look(self, store: Store, service: str, now_s: float) -> None:
        """Read the reports of all proxies; one of a proxy that died long ago is removed."""
        now = self.monotonic()
        found = {each.report.proxy_id: each for each in service_store.load_reports(store, service)}
        self.seen = {
            proxy_id: self._sighting(proxy_id, stored, now, now_s)
            for proxy_id, stored in found.items()
        }
        for proxy_id, sighting in self.seen.items():
            if now - sighting.changed > REMOVED_AFTER_S:
                with suppress(PreconditionError):  # it lives after all
                    service_store.delete_report(
                        store, service, proxy_id, sighting.stored.generation
                    )

    def live(self) -> tuple[SeenReport, ...]:
        """The reports of the proxies that live."""
        now = self.monotonic()
        return tuple(
            SeenReport(each.stored.report, each.first_seen_s)
            for each in self.seen.values()
            if now - each.changed < DEAD_AFTER_S
        )

    def _sighting(self, proxy_id: str, stored: StoredReport, now: float, now_s: float) -> _Sighting:
        before = self.seen.get(proxy_id)
        if before is not None and before.stored.generation == stored.generation:
            return before
        return _Sighting(stored, now, now_s)
