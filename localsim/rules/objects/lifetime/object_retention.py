"""Object Retention Lock: the retention of a single object, and who may change it.

cloud.google.com/storage/docs/object-lock; status and reason of each refusal are those of the page
on status codes, the words are ours.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from localsim.rules.objects.storage_model import (
    Bucket,
    Properties,
    StorageError,
    instant,
    invalid,
)

RETENTION = "retention"
LOCKED, UNLOCKED = "Locked", "Unlocked"
MAX_RETENTION_S = 3_155_760_000
"""The longest retention, 100 years."""


def has_object_retention(settings: Properties) -> bool:
    """Whether objects of a bucket with these settings can have a retention of their own."""
    return (settings.get("objectRetention") or {}).get("mode") == "Enabled"


def checked_retention(value: Any) -> dict[str, Any] | None:
    """The retention that a client sends, its fields checked; None where it clears all of it."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise invalid("retention must be an object.")
    mode, until = value.get("mode"), value.get("retainUntilTime")
    if mode not in (None, LOCKED, UNLOCKED):
        raise invalid(f"Invalid value for retention.mode: '{mode}'")
    if until is not None:
        until = instant(_moment_s(until))
    given = {"mode": mode, "retainUntilTime": until}
    shown = {name: given[name] for name in given if name in value}
    return shown if any(shown.values()) else None


def merged_retention(before: Any, change: Any) -> dict[str, Any] | None:
    """What a patch makes of a retention: a field that it leaves out stays."""
    merged = {**(before or {}), **(change or {})}
    kept = {name: value for name, value in merged.items() if value is not None}
    return kept if change is not None and kept else None


def retained_until_s(properties: Properties) -> float | None:
    """When the retention of an object ends; None for an object without one."""
    until = (properties.get(RETENTION) or {}).get("retainUntilTime")
    return None if until is None else _moment_s(until)


def without_ended_retention(properties: Properties, now_s: float) -> dict[str, Any]:
    """The properties of an object, without a retention that is over."""
    until_s = retained_until_s(properties)
    is_over = until_s is not None and until_s <= now_s
    return {name: value for name, value in properties.items() if name != RETENTION or not is_over}


def check_retention_change(
    bucket: Bucket, before: Properties, after: Properties, *, overrides: bool, now_s: float
) -> None:
    """Raise StorageError 400 or 403 where the retention of an object may not change so."""
    old, new = before.get(RETENTION), after.get(RETENTION)
    if new and after.get("eventBasedHold"):
        raise invalid("An object cannot have a retention and an event-based hold.")
    if new == old:
        return
    if new is not None:
        _check_new(bucket, new, now_s)
    if old is None:
        return
    old_until_s, new_until_s = retained_until_s(before) or 0.0, retained_until_s(after)
    is_less = new_until_s is None or new_until_s < old_until_s
    mode = (new or {}).get("mode")
    if old["mode"] == LOCKED and old_until_s > now_s and (is_less or mode != LOCKED):
        raise StorageError(
            403,
            "forbidden",
            "A locked retention can be prolonged; it cannot be shortened, unlocked or removed.",
        )
    is_locking = mode == LOCKED != old["mode"]
    if (is_less or is_locking) and not overrides:
        raise StorageError(
            403,
            "forbidden",
            "The retention of an object is shortened, locked or removed only with"
            " overrideUnlockedRetention=true.",
        )


def _check_new(bucket: Bucket, retention: Mapping[str, Any], now_s: float) -> None:
    if not has_object_retention(bucket.properties):
        raise invalid(f"Object retention is not enabled for bucket '{bucket.name}'.")
    if not (retention.get("mode") and retention.get("retainUntilTime")):
        raise invalid("A retention must have a mode and a retainUntilTime.")
    left_s = _moment_s(retention["retainUntilTime"]) - now_s
    if not 0 < left_s <= MAX_RETENTION_S:
        raise invalid("retainUntilTime must be in the future, and within 100 years.")


def _moment_s(text: Any) -> float:
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
        if moment is not None and moment.tzinfo is not None:
            return moment.astimezone(UTC).timestamp()
    except (ValueError, OverflowError):  # of a year that there is not
        pass
    raise invalid(f"Invalid value for retainUntilTime: '{text}'")
