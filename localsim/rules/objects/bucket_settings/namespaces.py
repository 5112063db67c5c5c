"""The namespace of a bucket: flat, or with folders, which is decided when it is made.

What does not go together with folders, and in which words it is refused: as a public client's tests
recorded of the JSON API in October 2026.
"""

import re
from collections.abc import Mapping
from typing import Any

from localsim.rules.objects.storage_model import Properties, invalid

ZONAL_CLASS = "RAPID"
"""The storage class of zonal buckets, whose objects can be appended to."""
_FIELD = "hierarchicalNamespace"
_ZONE = re.compile(r"[a-z]+-[a-z]+[0-9]+-[a-z]")


def has_folders(settings: Properties) -> bool:
    """Whether a bucket's namespace is hierarchical."""
    return (settings.get(_FIELD) or {}).get("enabled") is True


def is_zonal(settings: Properties) -> bool:
    """Whether a bucket lies in one zone, so that objects can be appended to."""
    return settings.get("storageClass") == ZONAL_CLASS


def has_uniform_access(settings: Properties) -> bool:
    """Whether only IAM decides who may do what."""
    access = (settings.get("iamConfiguration") or {}).get("uniformBucketLevelAccess") or {}
    return access.get("enabled") is True


def new_namespace(given: Any) -> dict[str, Any]:
    """The setting of a new bucket; a later change of it is passed over, as Google does."""
    if given is None:
        return {}
    enabled = given.get("enabled") if isinstance(given, Mapping) else None
    if not isinstance(enabled, bool | None):
        raise invalid(f"Invalid value for TYPE_BOOL field: {enabled!r}")
    return {} if enabled is None else {_FIELD: {"enabled": enabled}}


def checked_namespace(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings, unless something in them does not go with folders; StorageError 400."""
    if is_zonal(settings):
        _check_zone(settings)
    if not has_folders(settings):
        return settings
    if not has_uniform_access(settings):
        raise invalid(
            "Buckets with hierarchical namespace enabled must use uniform bucket-level access."
        )
    if (settings.get("versioning") or {}).get("enabled"):
        raise _not_supported("Versioning")
    if settings.get("retentionPolicy"):
        raise _not_supported("Retention policy")
    if settings.get("objectRetention"):
        raise _not_supported("Object retention config")
    return settings


def _check_zone(settings: Properties) -> None:
    """Refuse a zonal bucket without folders, or whose place is not one zone of its region."""
    if not has_folders(settings):
        raise invalid(
            "Buckets of the storage class RAPID must have hierarchical namespace enabled."
        )
    placement = settings.get("customPlacementConfig") or {}
    places = placement.get("dataLocations") if isinstance(placement, Mapping) else None
    zone = places[0].lower() if isinstance(places, list) and len(places) == 1 else ""
    region = str(settings.get("location", "US")).lower()
    if not _ZONE.fullmatch(zone) or zone.rpartition("-")[0] != region:
        raise invalid("The specified custom placement config is not valid.")


def _not_supported(what: str) -> Exception:
    return invalid(f"{what} is not supported for buckets with hierarchical namespace enabled.")
