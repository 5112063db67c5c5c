"""The API's methods of accelerator types, runtime versions and zones, from the catalog."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter

from localsim.rules.api_methods import ApiMethods
from localsim.rules.db.collection import Page, page_of
from localsim.rules.model import filters
from localsim.rules.model.cloud_errors import not_found
from localsim.rules.model.nodes import AcceleratorConfig
from localsim.rules.model.resource_names import ALL_ZONES, zone_of
from tpuctl import catalog


@dataclass(frozen=True, slots=True)
class OfferedType:
    """One accelerator type in one zone."""

    name: str
    type: str
    config: AcceleratorConfig


@dataclass(frozen=True, slots=True)
class OfferedVersion:
    """One runtime version in one zone."""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class Location:
    """One zone of the project."""

    name: str
    zone: str


_TYPE_FIELDS: Mapping[str, Callable[[OfferedType], str]] = {
    "name": attrgetter("name"),
    "type": attrgetter("type"),
}
_VERSION_FIELDS: Mapping[str, Callable[[OfferedVersion], str]] = {
    "name": attrgetter("name"),
    "version": attrgetter("version"),
}
_LOCATION_FIELDS: Mapping[str, Callable[[Location], str]] = {
    "name": attrgetter("name"),
    "location_id": attrgetter("zone"),
    "locationId": attrgetter("zone"),
}


class OfferingMethods(ApiMethods):
    """Lists of what the catalog offers; `where` is a request's filter. All raise CloudError."""

    def list_accelerator_types(
        self,
        parent: str,
        page_size: int = 0,
        page_token: str = "",
        where: str = "",
        order_by: str = "",
    ) -> Page[OfferedType]:
        """A page of the accelerator types of a zone, or of all, filtered and sorted."""
        parent = self._project.parent(parent)
        offered = (
            _offered(zone, kind)
            for zone in _zones(parent)
            for kind in catalog.accelerator_types(zone=zone_of(zone))
        )
        selected = filters.select_items(offered, _TYPE_FIELDS, where, order_by)
        return self._reached(parent, page_of(selected, page_size, page_token))

    def get_accelerator_type(self, name: str) -> OfferedType:
        """One accelerator type in a zone."""
        name = self._project.resource(name, "acceleratorTypes")
        parent, _, wanted = name.rpartition("/acceleratorTypes/")
        try:
            kind = catalog.accelerator_type(wanted)
        except catalog.UnknownError:
            raise not_found(name) from None
        if zone_of(parent) not in catalog.zones_of(wanted):
            raise not_found(name)
        return _offered(parent, kind)

    def list_runtime_versions(
        self,
        parent: str,
        page_size: int = 0,
        page_token: str = "",
        where: str = "",
        order_by: str = "",
    ) -> Page[OfferedVersion]:
        """A page of the runtime versions of a zone, or of all, filtered and sorted.

        A node can have others too: as Google's, this list is not complete.
        """
        parent = self._project.parent(parent)
        offered = (
            OfferedVersion(f"{zone}/runtimeVersions/{version}", version)
            for zone in _zones(parent)
            for version in catalog.runtime_versions()
        )
        selected = filters.select_items(offered, _VERSION_FIELDS, where, order_by)
        return self._reached(parent, page_of(selected, page_size, page_token))

    def get_runtime_version(self, name: str) -> OfferedVersion:
        """One runtime version in a zone."""
        name = self._project.resource(name, "runtimeVersions")
        version = name.rpartition("/runtimeVersions/")[2]
        if version not in catalog.runtime_versions():
            raise not_found(name)
        return OfferedVersion(name, version)

    def list_locations(
        self, project: str, page_size: int = 0, page_token: str = "", where: str = ""
    ) -> Page[Location]:
        """A page of the zones of `projects/P`, filtered."""
        project = self._project.whole(project)
        zones = (Location(f"{project}/locations/{zone}", zone) for zone in catalog.zones())
        selected = filters.select_items(zones, _LOCATION_FIELDS, where, "")
        return page_of(selected, page_size, page_token)

    def get_location(self, name: str) -> Location:
        """One zone."""
        zone = self._project.zone(name)
        return Location(zone, zone_of(zone))


def _zones(parent: str) -> tuple[str, ...]:
    """The full names of the zones that `projects/P/locations/Z` means, where Z may be `-`."""
    everywhere, _, wanted = parent.rpartition("/")
    zones = catalog.zones()
    return tuple(f"{everywhere}/{zone}" for zone in zones if wanted in (zone, ALL_ZONES))


def _offered(parent: str, kind: catalog.AcceleratorType) -> OfferedType:
    config_enum = catalog.generation(kind.generation).config_enum or ""
    config = AcceleratorConfig(config_enum, kind.topology)
    return OfferedType(f"{parent}/acceleratorTypes/{kind.name}", kind.name, config)
