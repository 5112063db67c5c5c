"""The rules that keep an object from being deleted or replaced: holds and retention policies.

Reasons and words are the JSON API's as a public client's tests recorded them in September 2026:
a hold is refused as `forbidden`, though the documentation says `objectUnderActiveHold`.
"""

import dataclasses
from datetime import UTC, datetime
from typing import Any

from localsim.rules.objects.properties import (
    ACCESS_FIELDS,
    DEFAULT_CLASS,
    HOLD_FIELDS,
    RETENTION_START,
)
from localsim.rules.objects.storage_model import (
    Bucket,
    Properties,
    StorageError,
    StoredObject,
    instant,
)

EXPIRATION = "retentionExpirationTime"
_OF_A_GENERATION = (EXPIRATION, RETENTION_START)


class HoldError(StorageError):
    """A refusal (403) because of a hold; the JSON API has no reason of its own for it."""


def has_versions(bucket: Bucket) -> bool:
    """Whether a replaced or deleted object of the bucket becomes noncurrent."""
    versioning = bucket.properties.get("versioning") or {}
    return versioning.get("enabled") is True


def check_deletable(bucket: Bucket, stored: StoredObject | None, now_s: float) -> None:
    """Raise StorageError 403 when this generation may not be deleted, replaced or moved."""
    if stored is None:
        return
    name = f"{stored.bucket}/{stored.name}"
    for hold, kind in (("temporaryHold", "Temporary"), ("eventBasedHold", "Event-Based")):
        if stored.properties.get(hold):
            raise HoldError(
                403,
                "forbidden",
                f"Object '{name}' is under active {kind} hold and cannot be deleted, overwritten"
                " or archived until hold is removed.",
            )
    until_s = retained_until_s(bucket, stored)
    if until_s is not None and now_s < until_s:
        until = datetime.fromtimestamp(until_s, UTC).isoformat(timespec="microseconds")
        raise StorageError(
            403,
            "retentionPolicyNotMet",
            f"Object '{name}' is subject to bucket's retention policy or object retention and"
            f" cannot be deleted or overwritten until {until}",
        )


def retained_until_s(bucket: Bucket, stored: StoredObject) -> float | None:
    """When the retention of an object ends; None without a policy and while a hold defers it."""
    policy = bucket.properties.get("retentionPolicy")
    if policy is None or stored.properties.get("eventBasedHold"):
        return None
    start_s = float(stored.properties.get(RETENTION_START, stored.created_s))
    return start_s + int(policy["retentionPeriod"])


def with_expiration(bucket: Bucket, stored: StoredObject) -> StoredObject:
    """The object as it is shown, with the end of its retention where there is one."""
    until_s = retained_until_s(bucket, stored)
    if until_s is None:
        return stored
    properties = {**stored.properties, EXPIRATION: instant(until_s)}
    return dataclasses.replace(stored, properties=properties)


def new_properties(bucket: Bucket, properties: Properties) -> dict[str, Any]:
    """The metadata of a new object; the bucket gives class and hold where it names none."""
    result = {name: value for name, value in properties.items() if name not in _OF_A_GENERATION}
    if bucket.properties.get("defaultEventBasedHold") and result.get("eventBasedHold") is None:
        result["eventBasedHold"] = True
    default_class = bucket.properties.get("storageClass", DEFAULT_CLASS)
    if result.get("storageClass") is None and default_class != DEFAULT_CLASS:
        result["storageClass"] = default_class
    return result


def inherited_properties(source: StoredObject, asked: Properties) -> dict[str, Any]:
    """The metadata that a copy takes from its source, which excludes holds, class and access.

    Of what is `asked` for the copy only the access counts.
    """
    left = (*_OF_A_GENERATION, *HOLD_FIELDS, *ACCESS_FIELDS, "storageClass")
    taken = {name: value for name, value in source.properties.items() if name not in left}
    return taken | {name: asked[name] for name in ACCESS_FIELDS if name in asked}
