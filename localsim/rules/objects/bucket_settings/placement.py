"""Where buckets are: regions, pairs of regions, continents; and how fast pairs are replicated.

cloud.google.com/storage/docs/locations, as of 2026; regions with TPUs are those of the catalog,
which knows some that the page does not list.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from localsim.rules.objects.bucket_settings.value_types import object_value, text_list, word_value
from localsim.rules.objects.storage_model import Properties, StorageError, invalid
from tpuctl.catalog.lookup import zones

DEFAULT_LOCATION = "US"
PREDEFINED_PAIRS: Mapping[str, Sequence[str]] = {
    "ASIA1": ("ASIA-NORTHEAST1", "ASIA-NORTHEAST2"),
    "EUR4": ("EUROPE-NORTH1", "EUROPE-WEST4"),
    "EUR5": ("EUROPE-WEST1", "EUROPE-WEST2"),
    "EUR7": ("EUROPE-WEST2", "EUROPE-WEST3"),
    "EUR8": ("EUROPE-WEST3", "EUROPE-WEST6"),
    "NAM4": ("US-CENTRAL1", "US-EAST1"),
}
_MULTI_REGIONS = ("ASIA", "EU", "US")
_CONTAINERS: Mapping[str, Sequence[str]] = {
    "ASIA": ("ASIA-",),
    "AU": ("AUSTRALIA-",),
    "CA": ("NORTHAMERICA-NORTHEAST",),
    "DE": ("EUROPE-WEST3", "EUROPE-WEST10"),
    "EU": ("EUROPE-",),
    "IN": ("ASIA-SOUTH1", "ASIA-SOUTH2"),
    "IT": ("EUROPE-WEST8", "EUROPE-WEST12"),
    "US": ("US-",),
}
"""The location of a pair that its owner puts together, and how the regions in it begin."""
_NUMBERED: Mapping[str, Sequence[int]] = {
    "AFRICA-SOUTH": (1,),
    "ASIA-EAST": (1, 2),
    "ASIA-NORTHEAST": (1, 2, 3),
    "ASIA-SOUTH": (1, 2),
    "ASIA-SOUTHEAST": (1, 2, 3),
    "AUSTRALIA-SOUTHEAST": (1, 2),
    "EUROPE-CENTRAL": (2,),
    "EUROPE-NORTH": (1, 2),
    "EUROPE-SOUTHWEST": (1,),
    "EUROPE-WEST": (1, 2, 3, 4, 6, 8, 9, 10, 12),
    "ME-CENTRAL": (1, 2),
    "ME-WEST": (1,),
    "NORTHAMERICA-NORTHEAST": (1, 2),
    "NORTHAMERICA-SOUTH": (1,),
    "SOUTHAMERICA-EAST": (1,),
    "SOUTHAMERICA-WEST": (1,),
    "US-CENTRAL": (1, 2),
    "US-EAST": (1, 4, 5, 7),
    "US-SOUTH": (1,),
    "US-WEST": (1, 2, 3, 4, 8),
}
_PAIR = 2
RPO_DEFAULT, RPO_TURBO = "DEFAULT", "ASYNC_TURBO"


def is_region(name: str) -> bool:
    """Whether there is a region of that name, in capitals."""
    family = name.rstrip("0123456789")
    number = name[len(family) :]
    if number in map(str, _NUMBERED.get(family, ())):
        return True
    return name in {zone.upper().rpartition("-")[0] for zone in zones()}


def checked_location(value: Any) -> str:
    """A location in capitals; raises StorageError 400 where there is none of that name."""
    name = value.upper() if isinstance(value, str) else ""
    if name in _CONTAINERS or name in PREDEFINED_PAIRS or is_region(name):
        return name
    raise _no_location()


def with_named_pair(resource: Properties) -> Properties:
    """The resource of a new bucket; `A+B` as its location is a pair of regions."""
    location = resource.get("location")
    if not isinstance(location, str) or "+" not in location:
        return resource
    regions = location.upper().split("+")
    containers = [name for name in _CONTAINERS if all(_is_in(each, name) for each in regions)]
    if not containers:
        raise _no_location()
    country = next((name for name in containers if name not in _MULTI_REGIONS), containers[0])
    placement = {"dataLocations": regions}
    return {**resource, "location": country, "customPlacementConfig": placement}


def checked_placement(value: Any, before: Any) -> Any:
    """Where the data of a bucket lie that is in no location of a name; that never changes."""
    if value is None:
        return before
    places = object_value("customPlacementConfig", value).get("dataLocations") or []
    names = [name.upper() for name in text_list("dataLocations", places)]
    if before is not None and sorted(names) != sorted(_places({"customPlacementConfig": before})):
        raise invalid("The placement of a bucket cannot be changed.")
    if len(names) == 1:  # a zone, unlike regions, has a name in small letters
        names = [names[0].lower()]
    return {"dataLocations": names} if names else None


def check_placement(settings: Properties) -> None:
    """Raise StorageError 400 where a pair of regions is not one of the bucket's location."""
    places = _places(settings)
    location = location_of_settings(settings)
    if not places and location in _CONTAINERS and location not in _MULTI_REGIONS:
        raise _no_location()  # a country alone is none
    is_zone = len(places) == 1 and is_region(location) and places[0].startswith(f"{location}-")
    is_pair = len(set(places)) == len(places) == _PAIR
    if not places or is_zone or (is_pair and all(_is_in(each, location) for each in places)):
        return
    named = ", ".join(f"data_location {each.lower()}" for each in places)
    raise invalid(
        f"Project may not create storageClass {settings.get('storageClass', 'STANDARD')} buckets"
        f" with locationConstraint {location} and {named}."
    )


def checked_rpo(value: Any) -> str | None:
    """How soon a pair of regions is replicated."""
    return None if value is None else word_value(value, (RPO_DEFAULT, RPO_TURBO))


def check_rpo(settings: Properties) -> None:
    """Raise StorageError 400 for turbo replication of what is not a pair of regions."""
    if settings.get("rpo") == RPO_TURBO and location_type(settings) != "dual-region":
        raise invalid("Turbo replication is only for buckets in dual-regions.")


def location_of_settings(settings: Properties) -> str:
    """The location, in capitals."""
    return str(settings.get("location", DEFAULT_LOCATION)).upper()


def location_type(settings: Properties) -> str:
    """The type of a bucket's location: region, dual-region, multi-region or zone."""
    location = location_of_settings(settings)
    if places := _places(settings):
        return "dual-region" if len(places) == _PAIR else "zone"
    if location in PREDEFINED_PAIRS:
        return "dual-region"
    return "multi-region" if location in _MULTI_REGIONS else "region"


def shown_placement(settings: Properties) -> dict[str, Any]:
    """What a bucket's resource says of its place beside what is kept."""
    kind = location_type(settings)
    shown = {"location": location_of_settings(settings), "locationType": kind}
    if kind in ("dual-region", "multi-region"):
        shown["rpo"] = str(settings.get("rpo", RPO_DEFAULT))
    return shown


def _no_location() -> StorageError:
    return invalid("The specified location constraint is not valid.")


def _places(settings: Properties) -> list[str]:
    places = (settings.get("customPlacementConfig") or {}).get("dataLocations") or []
    return [str(each).upper() for each in places]


def _is_in(region: str, location: str) -> bool:
    return is_region(region) and region.startswith(tuple(_CONTAINERS.get(location, ())))
