"""What is known of one type in each zone, as values."""

from dataclasses import dataclass
from enum import StrEnum

from tpuctl import catalog
from tpuctl.jobs.remaining_quota import QuotaLeft
from tpuctl.models.capacity.capacity_event import CapacityEvent, Reservation
from tpuctl.models.node import Provisioning
from tpuctl.models.quota_holders import QuotaHolder

CHIPS = "chips"


class Chance(StrEnum):
    """How likely a request is granted soon, the best first."""

    RESERVED = "reserved"
    """A reservation of the project has room for a slice."""
    GRANTED = "granted"
    """A slice was granted within the days of the page, and none was refused since."""
    OPEN = "open"
    """Nothing is known against it."""
    REFUSED = "refused"
    """A slice was refused within the last hours, and none was granted since."""
    NO_QUOTA = "no-quota"
    """What is left of the quota, or of the reservation, is not enough for a slice."""
    SILENT = "silent"
    """The zone does not answer."""
    CLOSED = "closed"
    """The API does not offer the type there, or the zone is not open to the project."""


@dataclass(frozen=True, slots=True)
class CapacityHistory:
    """What became of requests for a type in a zone within the days of the page."""

    refusals: int = 0
    last_refusal: CapacityEvent | None = None
    grants: int = 0
    last_grant: CapacityEvent | None = None
    wait_s: float | None = None
    """The median of how long granted requests had waited."""
    preemptions: int = 0
    life_s: float | None = None
    """The median of how long slices lived that were taken away."""
    waiting: int = 0
    """Requests that wait for resources now."""


@dataclass(frozen=True, slots=True)
class ZoneOffer:
    """One way to get a slice in one zone."""

    provisioning: Provisioning
    usd_per_hour: float | None
    """By the price list; None where it has none."""
    history: CapacityHistory = CapacityHistory()
    quota: QuotaLeft | None = None
    """None where there is no limit, or it is not known."""
    holders: tuple[QuotaHolder, ...] = ()
    """Who uses the quota."""
    chance: Chance = Chance.OPEN


@dataclass(frozen=True, slots=True)
class ZoneCapacity:
    """One zone that has the type."""

    zone: str
    accelerator_type: str
    offers: tuple[ZoneOffer, ...]
    """Every way to get a slice there that was asked about, the best chance first."""
    distance: int = 0
    """From the bucket: 0 the same region (or not known), 1 the same continent, 2 farther away."""
    has_type: bool | None = None
    """Whether the API offers the type there now; None: not known."""
    reservations: tuple[Reservation, ...] = ()
    """Those of the type's generation."""
    reservation_names: tuple[str, ...] = ()
    """Reservations that queued resources of the type name, whether they are listed or not."""

    @property
    def roomy_reservation(self) -> Reservation | None:
        """The first reservation that has room for a slice."""
        kind = catalog.accelerator_type(self.accelerator_type)
        amounts = {CHIPS: kind.chips}
        return next(
            (
                each
                for each in self.reservations
                if each.left >= amounts.get(each.unit, kind.tensorcores)
            ),
            None,
        )

    @property
    def best(self) -> ZoneOffer:
        """The offer with the best chance."""
        return self.offers[0]

    def offer(self, provisioning: Provisioning) -> ZoneOffer | None:
        """The offer of a kind; None where it was not asked about, or is not made."""
        return next((each for each in self.offers if each.provisioning == provisioning), None)


@dataclass(frozen=True, slots=True)
class CapacityPage:
    """Every zone that has a type, the best chance first."""

    accelerator_type: str
    zones: tuple[ZoneCapacity, ...]
    observations: int | None = None
    """How many events of the days are known; None: nobody could be asked."""
    troubles: tuple[str, ...] = ()
    """What could not be learnt, a line for each."""
