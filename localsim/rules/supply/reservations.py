"""Reserved capacity, from the scenario."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from localsim.rules.model.cloud_errors import CloudError, Code, invalid, not_found, with_error_id
from localsim.rules.model.nodes import NodeSpec
from localsim.rules.model.quota_pools import pool
from localsim.rules.model.resource_names import ALL_ZONES, zone_of
from localsim.rules.state.state import State
from tpuctl import catalog

ANY_RESERVATION = "-"
"""The last part of a name that leaves the choice to the service: `…/reservations/-`."""
YEAR_S = 365 * 86400.0


@dataclass(frozen=True, slots=True)
class Reservation:
    """Reserved chips or cores of a generation in a zone; `state` and units are the API's.

    A generation that is counted in chips has one core on each.
    """

    name: str
    resource_type: str
    size: int
    capacity_units: str
    state: str
    start_s: float
    end_s: float
    used: int

    @property
    def left(self) -> int:
        """How much of it is free now."""
        return self.size - self.used if self.state == "ACTIVE" else 0


def list_reservations(state: State, parent: str, now_s: float) -> tuple[Reservation, ...]:
    """The reservations of a zone, or of all zones."""
    where, _, zone = parent.rpartition("/")
    return tuple(
        _reservation(state, f"{where}/{each['zone']}", each, now_s)
        for each in state.scenario.reservations
        if zone in (each["zone"], ALL_ZONES)
    )


def check(state: State, zone: str, spec: NodeSpec, now_s: float) -> None:
    """Check the name of the reservation that a node of `projects/P/locations/Z` asks for.

    Raises CloudError: INVALID_ARGUMENT for a malformed name, NOT_FOUND for an unknown reservation.
    """
    name = spec.scheduling.reservation_name
    if not name:
        return
    parent, _, last = name.rpartition("/reservations/")
    if not (parent and last) or "/" in last or parent.rpartition("/")[2] != zone_of(zone):
        raise invalid(f"Malformed reservation name '{name}' for zone '{zone_of(zone)}'.")
    if last != ANY_RESERVATION and not list(_fitting(state, zone, spec, now_s)):
        raise not_found(name)


def choose_reservation(
    state: State, zone: str, spec: NodeSpec, count: int, now_s: float
) -> Reservation | None:
    """The reservation that `count` nodes are taken from; None where all are in use.

    Raises CloudError FAILED_PRECONDITION where none is large enough.
    """
    wanted = count * spec.kind.tensorcores
    fitting = [each for each in _fitting(state, zone, spec, now_s) if each.state != "EXPIRED"]
    if not any(each.size >= wanted for each in fitting):
        raise insufficient_reservation(zone, spec, count)
    return next((each for each in fitting if each.left >= wanted), None)


def insufficient_reservation(zone: str, spec: NodeSpec, count: int) -> CloudError:
    """A refusal with FAILED_PRECONDITION in Google's words."""
    sentence = (
        f"There is insufficient reserved capacity in zone {zone_of(zone)} for {count} x "
        f"'{spec.accelerator_type}'."
    )
    return CloudError(Code.FAILED_PRECONDITION, with_error_id(sentence))


def _fitting(state: State, zone: str, spec: NodeSpec, now_s: float) -> Iterator[Reservation]:
    name = spec.scheduling.reservation_name
    for settings in state.scenario.reservations:
        kind = catalog.accelerator_type(settings["accelerator_type"])
        if (settings["zone"], kind.generation) == (zone_of(zone), spec.kind.generation):
            reservation = _reservation(state, zone, settings, now_s)
            if name in ("", reservation.name) or name.endswith(f"/{ANY_RESERVATION}"):
                yield reservation


def _reservation(state: State, zone: str, settings: Mapping[str, Any], now_s: float) -> Reservation:
    kind = catalog.accelerator_type(settings["accelerator_type"])
    name = f"{zone}/reservations/{settings['name']}"
    begin_s = state.conditions.start_s
    start_s = begin_s + settings.get("start_s", 0.0)
    end_s = begin_s + settings.get("end_s", YEAR_S)
    return Reservation(
        name=name,
        resource_type=catalog.generation(kind.generation).config_enum or "",
        size=settings["slices"] * kind.tensorcores,
        capacity_units=pool(kind.name, preemptible=False).unit.upper(),
        state="APPROVED" if now_s < start_s else "EXPIRED" if now_s >= end_s else "ACTIVE",
        start_s=start_s,
        end_s=end_s,
        used=state.reserved_held[name],
    )
