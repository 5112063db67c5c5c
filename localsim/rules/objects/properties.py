"""The metadata of an object that a client may set: which fields, what in them, how they change."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from localsim.rules.objects.storage_model import Properties, invalid, not_implemented

STORAGE_CLASSES = (
    "STANDARD",
    "NEARLINE",
    "COLDLINE",
    "ARCHIVE",
    "MULTI_REGIONAL",
    "REGIONAL",
    "DURABLE_REDUCED_AVAILABILITY",
)
DEFAULT_CLASS = "STANDARD"
MAX_METADATA_BYTES = 8 * 1024
HOLD_FIELDS = ("temporaryHold", "eventBasedHold")
RETENTION_START = "retentionStart"
"""Not a field of the API: when, in seconds, an event-based hold was last released."""
ACL, PREDEFINED_ACL, OWNER_EMAIL = "acl", "predefinedAcl", "owner"
ACCESS_FIELDS = (ACL, PREDEFINED_ACL, OWNER_EMAIL)
"""The list that is asked for, in full or by name, or that an object has; and who wrote it."""

_TEXT_FIELDS = (
    "cacheControl",
    "contentDisposition",
    "contentEncoding",
    "contentLanguage",
    "contentType",
    "customTime",
    "storageClass",
)
_UNSUPPORTED_FIELDS = ("contexts", "customerEncryption", "kmsKeyName", "retention")
_FIXED_AFTER_WRITE = ("storageClass",)


def writable_properties(resource: Properties) -> dict[str, Any]:
    """Keep the fields a client may set, checked; None stands for one to clear."""
    for name in _UNSUPPORTED_FIELDS:
        if resource.get(name):
            raise not_implemented(f"The object field {name!r}")
    properties: dict[str, Any] = {
        name: _checked_text(name, resource[name]) for name in _TEXT_FIELDS if name in resource
    }
    if resource.get(ACL):
        properties[ACL] = _checked_entries(resource[ACL])
    if properties.get("storageClass") is not None:
        properties["storageClass"] = checked_storage_class(properties["storageClass"])
    _moment(properties.get("customTime"))
    holds = {name: _checked_flag(name, resource[name]) for name in HOLD_FIELDS if name in resource}
    if "metadata" in resource:
        return {**properties, **holds, "metadata": _checked_metadata(resource["metadata"])}
    return {**properties, **holds}


def checked_storage_class(name: Any) -> str:
    """A storage class in capitals; raises StorageError 400."""
    if not isinstance(name, str) or name.upper() not in STORAGE_CLASSES:
        raise invalid(f'Invalid storage class "{name}"')
    return name.upper()


def changed_properties(
    properties: Properties, change: Properties, *, keeping: bool, now_s: float
) -> dict[str, Any]:
    """What a patch, or with `keeping` off an update, makes of the metadata of an object.

    A `customTime` once set stays, and moves forward only: cloud.google.com/storage/docs/metadata.
    """
    fixed = {name: properties.get(name) for name in _FIXED_AFTER_WRITE}
    result = merged_properties(properties if keeping else {}, {**change, **fixed})
    before, after = (_moment(state.get("customTime")) for state in (properties, result))
    if before is not None and (after is None or after < before):
        raise invalid("The customTime of an object can neither be removed nor be set back.")
    _check_size(result.get("metadata") or {})
    if properties.get("eventBasedHold") and not result.get("eventBasedHold"):
        return {**result, RETENTION_START: now_s}
    if RETENTION_START in properties:
        return {**result, RETENTION_START: properties[RETENTION_START]}
    return result


def merged_properties(properties: Properties, change: Properties) -> dict[str, Any]:
    """Apply a patch: a None clears its field, `metadata` is merged key by key."""
    result = {**properties, **change}
    if change.get("metadata") is not None:
        result["metadata"] = {**(properties.get("metadata") or {}), **change["metadata"]}
    return without_nulls(result)


def without_nulls(properties: Properties) -> dict[str, Any]:
    """Drop what is None, in `metadata` too."""
    kept = {name: value for name, value in properties.items() if value is not None}
    if "metadata" in kept:
        metadata = {key: value for key, value in kept["metadata"].items() if value is not None}
        kept.pop("metadata")
        return {**kept, "metadata": metadata} if metadata else kept
    return kept


def _moment(text: str | None) -> datetime | None:
    """A customTime, which is of RFC 3339; raises StorageError 400."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise invalid(f"Invalid value for customTime: '{text}'") from None
    if moment.tzinfo is None:
        raise invalid(f"Invalid value for customTime: '{text}' has no time zone")
    return moment


def _checked_text(name: str, value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise invalid(f"{name} must be a string.")
    if not value.isprintable():  # it comes back as a response header
        raise invalid(f"{name} must not contain unprintable characters.")
    return value


def _checked_entries(value: Any) -> list[Any]:
    """A list of access controls; what is in it depends on the bucket."""
    if not isinstance(value, list):
        raise invalid("Invalid value for access control list")
    return value


def _checked_flag(name: str, value: Any) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise invalid(f"{name} must be true or false.")
    return value


def _checked_metadata(value: Any) -> dict[str, str | None] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise invalid("metadata must be a map of strings.")
    if not all(isinstance(item, str | None) for item in value.values()):
        raise invalid("metadata values must be strings.")
    _check_size(value)
    return dict(value)


def _check_size(metadata: Mapping[str, str | None]) -> None:
    """Refuse more custom metadata than Cloud Storage keeps: storage/quotas#objects."""
    texts = [text for item in metadata.items() for text in item if text is not None]
    if sum(len(text.encode(errors="replace")) for text in texts) > MAX_METADATA_BYTES:
        raise invalid(f"Custom metadata has at most {MAX_METADATA_BYTES} bytes in all.")
