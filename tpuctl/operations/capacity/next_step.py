"""The command that follows from the page."""

from tpuctl.models.node import Provisioning
from tpuctl.operations.capacity.zone_capacity import CapacityPage, Chance, ZoneCapacity, ZoneOffer

TIER_OPTIONS = {
    Provisioning.ON_DEMAND: "",
    Provisioning.SPOT: " --spot",
    Provisioning.RESERVED: " --reserved",
    Provisioning.BEST_EFFORT: " --best-effort",
    Provisioning.FLEX_START: " --flex-start --max-run-duration 24h",
}
"""The options of `qr create` that ask for each kind of capacity."""

UNREACHED = frozenset({Chance.SILENT, Chance.CLOSED})
CHECK = "tpuctl context check"
"""What finds out why no zone is open to the project, or answers."""


def next_step(page: CapacityPage) -> str:
    """The command to run next: it asks the best zone, or for what this lacks."""
    zone = page.zones[0]
    offer = zone.best
    if offer.chance == Chance.NO_QUOTA and offer.quota is not None:
        return _more_quota(page, offer)
    return CHECK if offer.chance in UNREACHED else request_command(zone, offer)


def request_command(zone: ZoneCapacity, offer: ZoneOffer) -> str:
    """The command that requests a slice by an offer."""
    options = TIER_OPTIONS[offer.provisioning]
    if offer.provisioning == Provisioning.RESERVED and zone.roomy_reservation:
        options = f" --reservation {zone.roomy_reservation.name}"
    return f"tpuctl qr create NAME -t {zone.accelerator_type} --zone {zone.zone}{options}"


def _more_quota(page: CapacityPage, offer: ZoneOffer) -> str:
    """How to get quota where no zone has enough: from who holds it, or from Google."""
    wanted = offer.quota.each if offer.quota else 0
    freed = [
        (holder, zone)
        for zone in page.zones
        for each in zone.offers
        for holder in each.holders
        if each.quota is not None and each.quota.left + holder.amount >= wanted
    ]
    if freed:
        return freed[0][0].delete_command
    return "ask for more quota (console: IAM & Admin > Quotas)"
