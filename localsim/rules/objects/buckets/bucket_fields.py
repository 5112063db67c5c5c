"""The settings of a bucket that a client may set, and how a patch or an update changes them.

A patch merges: a field left out stays, a nested object merges field by field, a list replaces the
list, null removes; as a public client's tests recorded of the JSON API in September 2026.
"""

from collections.abc import Mapping
from typing import Any

from localsim.rules.objects.buckets.bucket_checks import CHECKS, BucketChange
from localsim.rules.objects.properties import DEFAULT_CLASS
from localsim.rules.objects.storage_model import Bucket, Properties, invalid, not_implemented

_UNSUPPORTED = ("encryption", "hierarchicalNamespace", "ipFilter")


def new_settings(bucket: str, resource: Properties, now_s: float) -> dict[str, Any]:
    """The settings of a new bucket; raises StorageError."""
    return _applied(bucket, {}, {"iamConfiguration": {}, **_known(resource)}, now_s)


def patched_settings(
    bucket: str, settings: Properties, change: Properties, now_s: float
) -> dict[str, Any]:
    """The settings after a patch; raises StorageError."""
    change = _known(change)
    _check_location(settings, change)
    merged = {name: _merged(settings.get(name), value) for name, value in change.items()}
    if change.get("labels") == {}:
        merged["labels"] = None
    return _applied(bucket, settings, merged, now_s)


def replaced_settings(
    bucket: str, settings: Properties, resource: Properties, now_s: float
) -> dict[str, Any]:
    """The settings after an update: what it leaves out is cleared; raises StorageError."""
    resource = _known(resource)
    _check_location(settings, resource)
    cleared = dict.fromkeys(CHECKS) | {
        "iamConfiguration": {},
        "location": settings.get("location"),
        "storageClass": DEFAULT_CLASS,
    }
    return _applied(bucket, settings, {**cleared, **resource}, now_s)


def locked_settings(bucket: str, settings: Properties) -> dict[str, Any]:
    """The settings once the retention policy is locked; raises StorageError 400."""
    policy = settings.get("retentionPolicy")
    if policy is None or policy.get("isLocked"):
        raise invalid(f"Bucket '{bucket}' does not have an unlocked retention policy.")
    return {**settings, "retentionPolicy": {**policy, "isLocked": True}}


def has_uniform_access(settings: Properties) -> bool:
    """Whether only IAM decides who may do what."""
    access = (settings.get("iamConfiguration") or {}).get("uniformBucketLevelAccess") or {}
    return access.get("enabled") is True


def shown_configuration(bucket: Bucket) -> dict[str, Any]:
    """The field `iamConfiguration` as it is shown: uniform access has its older name too."""
    configuration = dict(bucket.properties.get("iamConfiguration") or {})
    uniform = configuration.get("uniformBucketLevelAccess") or {"enabled": False}
    return {"bucketPolicyOnly": uniform, "uniformBucketLevelAccess": uniform, **configuration}


def prevents_public_access(settings: Properties) -> bool:
    """Whether the bucket refuses grants to everybody."""
    configuration = settings.get("iamConfiguration") or {}
    return configuration.get("publicAccessPrevention") == "enforced"


def _known(resource: Properties) -> dict[str, Any]:
    """The fields that are kept; unknown ones and those that only Google sets are left out."""
    for name in _UNSUPPORTED:
        if resource.get(name) not in (None, [], {}, {"enabled": False}):
            raise not_implemented(f"The bucket field {name!r}")
    return {name: resource[name] for name in CHECKS if name in resource}


def _applied(bucket: str, before: Properties, values: Properties, now_s: float) -> dict[str, Any]:
    result = dict(before)
    for name, value in values.items():
        if value is None or value != before.get(name):
            result[name] = CHECKS[name](value, BucketChange(bucket, before.get(name), now_s))
    return {name: value for name, value in result.items() if value is not None}


def _merged(before: Any, value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    kept = before if isinstance(before, Mapping) else {}
    result = {**kept, **{name: _merged(kept.get(name), item) for name, item in value.items()}}
    return {name: item for name, item in result.items() if item is not None}


def _check_location(settings: Properties, change: Properties) -> None:
    given = change.get("location")
    if given is not None and str(given).upper() != settings.get("location", "US"):
        raise invalid("The location of a bucket cannot be changed.")
