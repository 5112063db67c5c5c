"""Which cloud the tests of both are for: localsim, or Google with TPUCTL_LIVE=PROJECT/ZONE/BUCKET.

Google is asked with the machine's own application default credentials. What costs money is the
smallest spot type of the zone, for at most an hour by its list price, within TPUCTL_LIVE_MAX_USD.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from client.workers.doors import Door
from tpuctl import catalog

LIVE = os.environ.get("TPUCTL_LIVE", "")
MOST_USD = float(os.environ.get("TPUCTL_LIVE_MAX_USD", "1"))
WHO_ASKS = {name: value for name, value in os.environ.items() if name.startswith("GOOGLE_")}
"""What the environment says of credentials, before the tests are shut off from it."""
LABELS = {"made-by": "tpuctl-contract"}
LONGEST_S = 1800.0


@dataclass(frozen=True)
class Place:
    """A zone of a project in some cloud."""

    project: str
    zone: str
    doors: Mapping[str, Door]
    let_time_pass: Callable[[], object]


@dataclass(frozen=True)
class Target:
    """A place, and one client for it."""

    place: Place
    door: Door

    @property
    def parent(self) -> str:
        return f"projects/{self.place.project}/locations/{self.place.zone}"

    def smallest_spot_type(self) -> tuple[str, float]:
        """The cheapest accelerator type of the zone, and its list price in USD per hour."""
        prices = {
            kind.name: price.usd_per_hour
            for kind in catalog.accelerator_types(zone=self.place.zone)
            if (price := catalog.price(kind.name, self.place.zone, "spot")) is not None
        }
        return min(prices.items(), key=lambda item: item[1])


def live_place() -> tuple[str, str]:
    """Project and zone; the bucket is for the tests of Cloud Storage."""
    project, zone, _bucket = LIVE.split("/")
    return project, zone
