"""The base of the classes that hold the API's methods."""

from dataclasses import replace
from typing import TypeVar

from localsim.clock import Clock
from localsim.rules.db.collection import NamedResource, Page
from localsim.rules.model.resource_names import ALL_ZONES, ProjectNames, zone_of
from localsim.rules.state.state import State

Item = TypeVar("Item", bound=NamedResource)


class ApiMethods:
    """A part of the API's methods, with plain arguments; each call is durable when it returns."""

    def __init__(self, state: State, project: ProjectNames, clock: Clock) -> None:
        self._state = state
        self._project = project
        self._clock = clock

    def _reached(self, parent: str, page: Page[Item]) -> Page[Item]:
        """Leave out the items of zones that do not answer.

        A list over all zones names those zones in `unreachable`.
        """
        silent = self._state.conditions.unreachable()
        everywhere, _, zone = parent.rpartition("/")
        if not silent or zone != ALL_ZONES:
            return page
        items = tuple(item for item in page.items if zone_of(item.name) not in silent)
        unreachable = tuple(f"{everywhere}/{each}" for each in sorted(silent))
        return replace(page, items=items, unreachable=unreachable)
