"""The lifecycle of a bucket, checked and kept; no rule of it is applied here.

cloud.google.com/storage/docs/lifecycle.
"""

from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

from localsim.rules.objects.bucket_settings.value_types import (
    boolean_value,
    integer_value,
    list_value,
    object_value,
    text_list,
    text_value,
)
from localsim.rules.objects.properties import checked_storage_class
from localsim.rules.objects.storage_model import invalid

_ABORT = "AbortIncompleteMultipartUpload"
_ACTIONS = (_ABORT, "Delete", "SetStorageClass")
_MAX_RULES = 100


def checked_lifecycle(value: Any) -> dict[str, Any] | None:
    """The rules of a lifecycle; None without any."""
    given = [] if value is None else object_value("lifecycle", value).get("rule") or []
    rules = [_rule(object_value("rule", rule)) for rule in list_value("lifecycle.rule", given)]
    if len(rules) > _MAX_RULES:
        raise invalid(f"A lifecycle has at most {_MAX_RULES} rules.")
    return {"rule": rules} if rules else None


def _rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    action = dict(object_value("action", rule.get("action") or {}))
    kind = action.get("type")
    if kind not in _ACTIONS:
        raise invalid(f"Invalid value for: {kind} is not a valid value")
    if kind == "SetStorageClass":
        action["storageClass"] = checked_storage_class(action.get("storageClass"))
    given = object_value("condition", rule.get("condition") or {})
    condition = {
        name: check(given[name], name) for name, check in _CONDITIONS.items() if name in given
    }
    if not condition:
        raise invalid("Lifecycle rules must have a condition.")
    if kind == _ABORT and not condition.keys() <= _OF_UPLOADS:
        raise invalid(f"{_ABORT} takes the conditions {', '.join(sorted(_OF_UPLOADS))} only.")
    return {"action": action, "condition": condition}


def _days(value: Any, name: str) -> int:
    days = integer_value(value)
    if days < 0:
        raise invalid(f"{name} must not be negative.")
    return days


def _date(value: Any, name: str) -> str:
    try:
        return date.fromisoformat(text_value(name, value)).isoformat()
    except ValueError:
        raise invalid(f"Invalid value for {name}: '{value}' is no date YYYY-MM-DD") from None


def _flag(value: Any, _: str) -> bool:
    return boolean_value(value)


def _texts(value: Any, name: str) -> list[str]:
    return text_list(name, value)


def _classes(value: Any, name: str) -> list[str]:
    return [checked_storage_class(item) for item in list_value(name, value)]


_CONDITIONS: Mapping[str, Callable[[Any, str], Any]] = {
    "age": _days,
    "createdBefore": _date,
    "customTimeBefore": _date,
    "daysSinceCustomTime": _days,
    "daysSinceNoncurrentTime": _days,
    "isLive": _flag,
    "matchesPrefix": _texts,
    "matchesStorageClass": _classes,
    "matchesSuffix": _texts,
    "noncurrentTimeBefore": _date,
    "numNewerVersions": _days,
}
_OF_UPLOADS = {"age", "matchesPrefix", "matchesSuffix"}
"""The conditions by which incomplete uploads are aborted."""
