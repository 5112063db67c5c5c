"""The settings of a bucket for web sites and logs: checked and kept."""

from typing import Any

from localsim.rules.objects.bucket_settings.value_types import (
    integer_value,
    list_value,
    object_value,
    text_list,
    text_value,
)

_LISTS = ("origin", "method", "responseHeader")


def checked_cors(value: Any) -> list[dict[str, Any]] | None:
    """The rules by which pages of other sites may use the bucket."""
    if not value:
        return None
    return [_cors_rule(rule) for rule in list_value("cors", value)] or None


def checked_website(value: Any) -> dict[str, str] | None:
    """The pages that stand for a folder and for what is not there."""
    return _texts("website", value, ("mainPageSuffix", "notFoundPage"))


def checked_logging(value: Any) -> dict[str, str] | None:
    """Where usage would be logged; nothing is."""
    return _texts("logging", value, ("logBucket", "logObjectPrefix"))


def _cors_rule(value: Any) -> dict[str, Any]:
    rule = object_value("cors", value)
    kept: dict[str, Any] = {
        name: text_list(name, rule[name]) for name in _LISTS if rule.get(name) is not None
    }
    if rule.get("maxAgeSeconds") is not None:
        kept["maxAgeSeconds"] = integer_value(rule["maxAgeSeconds"])
    return kept


def _texts(name: str, value: Any, fields: tuple[str, ...]) -> dict[str, str] | None:
    given = {} if value is None else object_value(name, value)
    kept = {each: text_value(each, given[each]) for each in fields if given.get(each) is not None}
    return kept or None
