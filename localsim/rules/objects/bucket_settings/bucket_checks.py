"""The checks of a bucket's settings, and the form in which each is kept.

The words of the refusals are the JSON API's as a public client's tests recorded them in September
2026, but for those of a value of the wrong type.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from localsim.rules.objects.bucket_settings.autoclass import check_autoclass, checked_autoclass
from localsim.rules.objects.bucket_settings.ip_filter import checked_ip_filter
from localsim.rules.objects.bucket_settings.lifecycle import checked_lifecycle
from localsim.rules.objects.bucket_settings.placement import (
    check_placement,
    check_rpo,
    checked_location,
    checked_placement,
    checked_rpo,
)
from localsim.rules.objects.bucket_settings.value_types import (
    boolean_value,
    integer_value,
    object_value,
)
from localsim.rules.objects.bucket_settings.web_settings import (
    checked_cors,
    checked_logging,
    checked_website,
)
from localsim.rules.objects.encryption.encryption_settings import checked_encryption
from localsim.rules.objects.properties import DEFAULT_CLASS, checked_storage_class
from localsim.rules.objects.storage_model import Properties, StorageError, instant, invalid

_MAX_LABELS = 64
_LABEL_CHARACTERS = 63
_LABEL_BYTES = 128
_MAX_RETENTION_S = 3_155_760_000
_SOFT_DELETE_S = (7 * 86400, 90 * 86400)
_UNIFORM_ACCESS_LOCKS_S = 90 * 86400
"""So long uniform access can be turned off again: cloud.google.com/storage/docs/buckets."""
_UNIFORM_ACCESS = ("uniformBucketLevelAccess", "bucketPolicyOnly")
_PREVENTIONS = {"inherited": "inherited", "unspecified": "inherited", "enforced": "enforced"}


@dataclass(frozen=True, slots=True)
class BucketChange:
    """What a check needs to know beside the value."""

    bucket: str
    before: Any
    """What the field was, None where it was not set."""
    now_s: float


Check = Callable[[Any, BucketChange], Any]


def _of_value(check: Callable[[Any], Any]) -> Check:
    """A check that needs to know the value alone."""
    return lambda value, _: check(value)


def _location(value: Any, _: BucketChange) -> Any:
    return None if value is None else checked_location(value)


def _class(value: Any, _: BucketChange) -> Any:
    return DEFAULT_CLASS if value is None else checked_storage_class(value)


def _flag(value: Any, _: BucketChange) -> Any:
    return value if value is None else boolean_value(value)


def _labels(value: Any, _: BucketChange) -> Any:
    labels = {} if value is None else object_value("labels", value)
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
    given = object_value("retentionPolicy", value).get("retentionPeriod")
    if given is None:
        return before or None
    period_s = integer_value(given)
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
    given = object_value("softDeletePolicy", value).get("retentionDurationSeconds")
    if given is None:
        return change.before
    least_s, most_s = _SOFT_DELETE_S
    duration_s = integer_value(given)
    if duration_s and not least_s <= duration_s <= most_s:
        raise invalid(
            "Soft delete policy must have a retention duration between 7 days and 90 days."
        )
    effective = {"effectiveTime": instant(change.now_s)} if duration_s else {}
    return {"retentionDurationSeconds": str(duration_s), **effective}


def _iam_configuration(value: Any, change: BucketChange) -> Any:
    given = {} if value is None else object_value("iamConfiguration", value)
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
    fields = [object_value(name, given.get(name) or {}) for name in _UNIFORM_ACCESS]
    values = [boolean_value(each["enabled"]) for each in fields if "enabled" in each]
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
        fields = {} if value is None else object_value(flag, value)
        return {flag: boolean_value(fields[flag])} if fields.get(flag) is not None else None

    return check


def _object_retention(value: Any, change: BucketChange) -> Any:
    """Once on, it is on for ever."""
    if value is None or change.before is not None:
        return change.before
    mode = object_value("objectRetention", value).get("mode")
    if mode not in (None, "Enabled", "Disabled"):
        raise invalid(f"Invalid value for: {mode} is not a valid value")
    return {"mode": mode} if mode == "Enabled" else None


CHECKS: Mapping[str, Check] = {
    "autoclass": lambda value, change: checked_autoclass(value, change.before, change.now_s),
    "billing": _of_flag("requesterPays"),
    "cors": _of_value(checked_cors),
    "customPlacementConfig": lambda value, change: checked_placement(value, change.before),
    "defaultEventBasedHold": _flag,
    "encryption": lambda value, change: checked_encryption(value, change.before, change.now_s),
    "iamConfiguration": _iam_configuration,
    "ipFilter": _of_value(checked_ip_filter),
    "labels": _labels,
    "lifecycle": _of_value(checked_lifecycle),
    "location": _location,
    "logging": _of_value(checked_logging),
    "objectRetention": _object_retention,
    "retentionPolicy": _retention_policy,
    "rpo": _of_value(checked_rpo),
    "softDeletePolicy": _soft_delete,
    "storageClass": _class,
    "versioning": _of_flag("enabled"),
    "website": _of_value(checked_website),
}
"""Every setting that is kept; None stands for one that is not set."""


JOINT_CHECKS: Mapping[Callable[[Properties], None], Sequence[str]] = {
    check_placement: ("customPlacementConfig", "location"),
    check_rpo: ("rpo",),
    check_autoclass: ("autoclass", "lifecycle", "storageClass"),
}
"""The checks of settings that depend on each other, for when one of them changes."""
