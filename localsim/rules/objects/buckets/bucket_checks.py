"""The checks of a bucket's settings, and the form in which each is kept.

The words of the refusals are the JSON API's as a public client's tests recorded them in September
2026, but for those of a value of the wrong type.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from localsim.rules.objects.properties import DEFAULT_CLASS, checked_storage_class
from localsim.rules.objects.storage_model import StorageError, instant, invalid

_MAX_LABELS = 64
_LABEL_CHARACTERS = 63
_LABEL_BYTES = 128
_MAX_RETENTION_S = 3_155_760_000
_SOFT_DELETE_S = (7 * 86400, 90 * 86400)
_UNIFORM_ACCESS_LOCKS_S = 90 * 86400
"""So long uniform access can be turned off again: cloud.google.com/storage/docs/buckets."""
_UNIFORM_ACCESS = ("uniformBucketLevelAccess", "bucketPolicyOnly")
_PREVENTIONS = {"inherited": "inherited", "unspecified": "inherited", "enforced": "enforced"}
_LIFECYCLE_ACTIONS = ("AbortIncompleteMultipartUpload", "Delete", "SetStorageClass")
_LOCATION = re.compile(r"[A-Za-z0-9-]{2,40}")


@dataclass(frozen=True, slots=True)
class BucketChange:
    """What a check needs to know beside the value."""

    bucket: str
    before: Any
    """What the field was, None where it was not set."""
    now_s: float


Check = Callable[[Any, BucketChange], Any]


def _location(value: Any, _: BucketChange) -> Any:
    if value is None:
        return None
    if not isinstance(value, str) or not _LOCATION.fullmatch(value):
        raise invalid("The specified location constraint is not valid.")
    return value.upper()


def _class(value: Any, _: BucketChange) -> Any:
    return DEFAULT_CLASS if value is None else checked_storage_class(value)


def _flag(value: Any, _: BucketChange) -> Any:
    return value if value is None else _boolean(value)


def _labels(value: Any, _: BucketChange) -> Any:
    labels = {} if value is None else _object("labels", value)
    for key, text in labels.items():
        if not _is_label(key) or not key or not (key[0].isalpha()):
            raise invalid(f"Invalid user label: {key}")
        if not isinstance(text, str) or not _is_label(text):
            raise invalid(f"Invalid user label: {key} with value {text}")
    if len(labels) > _MAX_LABELS:
        raise invalid(
            f"Attempt to create a bucket with {len(labels)} labels, maximum is {_MAX_LABELS}"
        )
    return labels or None


def _is_label(text: str) -> bool:
    """Whether a text has lower-case letters of any script, digits, underscores and dashes only."""
    return (
        len(text) <= _LABEL_CHARACTERS
        and len(text.encode(errors="replace")) <= _LABEL_BYTES
        and all(char in "_-" or (char.isalnum() and char == char.lower()) for char in text)
    )


def _retention_policy(value: Any, change: BucketChange) -> Any:
    before = change.before or {}
    if value is None:
        if before.get("isLocked"):
            raise StorageError(
                403,
                "retentionPolicyNotMet",
                f"Bucket '{change.bucket}' has a locked Retention Policy which cannot be removed.",
            )
        return None
    given = _object("retentionPolicy", value).get("retentionPeriod")
    if given is None:
        return before or None
    period_s = _integer(given)
    if not 1 <= period_s <= _MAX_RETENTION_S:
        raise invalid(
            "Retention policy must have a retention period greater than 0 and less than 100 years."
        )
    if before.get("isLocked") and period_s < int(before["retentionPeriod"]):
        raise StorageError(
            403,
            "forbidden",
            "Cannot reduce retention duration of a locked Retention Policy for bucket"
            f" '{change.bucket}'.",
        )
    effective = before.get("effectiveTime") or instant(change.now_s)
    lock = {"isLocked": True} if before.get("isLocked") else {}
    return {"retentionPeriod": str(period_s), "effectiveTime": effective, **lock}


def _soft_delete(value: Any, change: BucketChange) -> Any:
    if value is None:
        return None
    given = _object("softDeletePolicy", value).get("retentionDurationSeconds")
    if given is None:
        return change.before
    least_s, most_s = _SOFT_DELETE_S
    duration_s = _integer(given)
    if duration_s and not least_s <= duration_s <= most_s:
        raise invalid(
            "Soft delete policy must have a retention duration between 7 days and 90 days."
        )
    effective = {"effectiveTime": instant(change.now_s)} if duration_s else {}
    return {"retentionDurationSeconds": str(duration_s), **effective}


def _lifecycle(value: Any, _: BucketChange) -> Any:
    """Keep a lifecycle as given; no rule of it is applied here."""
    rules = [] if value is None else _object("lifecycle", value).get("rule") or []
    for rule in _list("lifecycle.rule", rules):
        action = _object("action", _object("rule", rule).get("action") or {}).get("type")
        if action not in _LIFECYCLE_ACTIONS:
            raise invalid(f"Invalid value for: {action} is not a valid value")
        if not _object("condition", rule.get("condition") or {}):
            raise invalid("Lifecycle rules must have a condition.")
    return {"rule": rules} if rules else None


def _iam_configuration(value: Any, change: BucketChange) -> Any:
    given = {} if value is None else _object("iamConfiguration", value)
    prevention = given.get("publicAccessPrevention", "inherited")
    if not isinstance(prevention, str) or prevention not in _PREVENTIONS:
        raise invalid(f"Invalid value for: {prevention} is not a valid value")
    uniform: dict[str, Any] = {"enabled": _is_uniform(given, change)}
    if uniform["enabled"]:
        locked = instant(change.now_s + _UNIFORM_ACCESS_LOCKS_S)
        uniform["lockedTime"] = _locked_time(change.before) or locked
    return {
        "uniformBucketLevelAccess": uniform,
        "publicAccessPrevention": _PREVENTIONS[prevention],
    }


def _is_uniform(given: Mapping[str, Any], change: BucketChange) -> bool:
    """Whether a bucket is to have uniform access, which has an older name: what changes counts."""
    before = ((change.before or {}).get("uniformBucketLevelAccess") or {}).get("enabled", False)
    fields = [_object(name, given.get(name) or {}) for name in _UNIFORM_ACCESS]
    values = [_boolean(each["enabled"]) for each in fields if "enabled" in each]
    enabled = next((each for each in values if each != before), *values[:1] or [False])
    locked = _locked_time(change.before)
    if before and not enabled and locked and instant(change.now_s) > locked:
        raise invalid("Uniform bucket-level access cannot be disabled after 90 days.")
    return enabled


def _locked_time(configuration: Any) -> Any:
    access = (configuration or {}).get("uniformBucketLevelAccess") or {}
    return access.get("lockedTime") if access.get("enabled") else None


def _of_flag(flag: str) -> Check:
    def check(value: Any, _: BucketChange) -> Any:
        fields = {} if value is None else _object(flag, value)
        return {flag: _boolean(fields[flag])} if fields.get(flag) is not None else None

    return check


def _autoclass(value: Any, change: BucketChange) -> Any:
    if value is None:
        return None
    fields = _object("autoclass", value)
    enabled = _boolean(fields.get("enabled", False))
    before = change.before or {}
    if before.get("enabled", False) == enabled and before:
        return {**fields, "toggleTime": before["toggleTime"]}
    return {**fields, "toggleTime": instant(change.now_s)}


def _kept(value: Any, _: BucketChange) -> Any:
    """Keep the value as given; it has no effect here."""
    return value or None


CHECKS: Mapping[str, Check] = {
    "autoclass": _autoclass,
    "billing": _of_flag("requesterPays"),
    "cors": _kept,
    "customPlacementConfig": _kept,
    "defaultEventBasedHold": _flag,
    "iamConfiguration": _iam_configuration,
    "labels": _labels,
    "lifecycle": _lifecycle,
    "location": _location,
    "logging": _kept,
    "retentionPolicy": _retention_policy,
    "rpo": _kept,
    "softDeletePolicy": _soft_delete,
    "storageClass": _class,
    "versioning": _of_flag("enabled"),
    "website": _kept,
}
"""Every setting that is kept; None stands for one that is not set."""


def _object(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise invalid(f"{name} must be an object.")
    return value


def _list(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise invalid(f"{name} must be a list.")
    return value


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise invalid(f"Invalid value for TYPE_BOOL field: {value!r}")
    return value


def _integer(value: Any) -> int:
    """An int64, which JSON may write as a string."""
    if isinstance(value, bool) or not re.fullmatch(r"-?[0-9]{1,18}", str(value)):
        raise invalid(f"Parse Error: Invalid value for TYPE_INT64 field: '{value}'.")
    return int(value)
