"""Accelerator types, runtime versions and zones, from the catalog."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from localsim.cloud.model import filters
from localsim.cloud.model.cloud_errors import not_found
from localsim.cloud.model.nodes import AcceleratorConfig
from localsim.cloud.model.resource_names import ALL_ZONES, zone_of
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


_TYPE_FIELDS: Mapping[str, Callable[[OfferedType], str]] = {
    "name": lambda offered: offered.name,
    "type": lambda offered: offered.type,
}
_VERSION_FIELDS: Mapping[str, Callable[[OfferedVersion], str]] = {
    "name": lambda offered: offered.name,
    "version": lambda offered: offered.version,
}


@dataclass(frozen=True, slots=True)
class Location:
    """One zone of the project."""

    name: str
    zone: str


_LOCATION_FIELDS: Mapping[str, Callable[[Location], str]] = {
    "name": lambda location: location.name,
    "location_id": lambda location: location.zone,
    "locationId": lambda location: location.zone,
}


def accelerator_types(parent: str, where: str = "", order_by: str = "") -> tuple[OfferedType, ...]:
    """The types of a zone, or of all, filtered and sorted; raises CloudError."""
    found = (
        _offered(zone, kind)
        for zone in _zones(parent)
        for kind in catalog.accelerator_types(zone=zone_of(zone))
    )
    return filters.select_items(found, _TYPE_FIELDS, where, order_by)


def accelerator_type(name: str) -> OfferedType:
    """One type in one zone; raises CloudError."""
    parent, _, wanted = name.rpartition("/acceleratorTypes/")
    try:
        kind = catalog.accelerator_type(wanted)
    except catalog.UnknownError:
        raise not_found(name) from None
    if zone_of(parent) not in catalog.zones_of(wanted):
        raise not_found(name)
    return _offered(parent, kind)


def runtime_versions(
    parent: str, where: str = "", order_by: str = ""
) -> tuple[OfferedVersion, ...]:
    """The runtime versions of a zone, or of all, filtered and sorted; raises CloudError.

    A node can have others too: as Google's, this list is not complete.
    """
    found = (
        OfferedVersion(f"{zone}/runtimeVersions/{version}", version)
        for zone in _zones(parent)
        for version in catalog.runtime_versions()
    )
    return filters.select_items(found, _VERSION_FIELDS, where, order_by)


def runtime_version(name: str) -> OfferedVersion:
    """One runtime version in one zone; raises CloudError."""
    version = name.rpartition("/runtimeVersions/")[2]
    if version not in catalog.runtime_versions():
        raise not_found(name)
    return OfferedVersion(name, version)


def locations(project: str, where: str = "") -> tuple[Location, ...]:
    """Every zone of the catalog, as a location of `projects/P`; raises CloudError."""
    found = (Location(f"{project}/locations/{zone}", zone) for zone in catalog.zones())
    return filters.select_items(found, _LOCATION_FIELDS, where, "")


def _zones(parent: str) -> tuple[str, ...]:
    everywhere, _, zone = parent.rpartition("/")
    return tuple(f"{everywhere}/{each}" for each in catalog.zones() if zone in (each, ALL_ZONES))


def _offered(parent: str, kind: catalog.AcceleratorType) -> OfferedType:
    config_enum = catalog.generation(kind.generation).config_enum or ""
    config = AcceleratorConfig(config_enum, kind.topology)
    return OfferedType(f"{parent}/acceleratorTypes/{kind.name}", kind.name, config)
