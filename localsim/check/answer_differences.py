"""Where two answers of the Cloud TPU API differ in more than names, numbers and times."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

REDACTED = frozenset({"redacted", "redacted@example.com"})
_OWN = frozenset({"id", "cidrBlock", "ipAddress", "externalIp", "nextPageToken"})
"""Fields whose value says only which resource this is."""
_SUBSTITUTIONS = (
    (re.compile(r"projects/[^/\s'\"]+"), "projects/<project>"),
    (re.compile(r"project [\w-]+"), "project <project>"),
    (re.compile(r"operation-[\w-]+"), "<operation>"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)"), "<time>"),
    (re.compile(r"\d{1,3}(\.\d{1,3}){3}"), "<address>"),
    (re.compile(r"\[EID: 0x[0-9a-f]+\]"), "[EID: <id>]"),
    (re.compile(r"service-\d+@"), "service-<number>@"),
    (re.compile(r"\b\d+-compute@"), "<number>-compute@"),
    (re.compile(r"t1v-n-[0-9a-f]+-w-"), "t1v-n-<id>-w-"),
)


def differences(recorded: Any, found: Any, path: str = "") -> Iterator[str]:
    """One line for each place where `found` is not what was recorded."""
    if isinstance(recorded, str) and recorded in REDACTED and isinstance(found, str):
        return
    if isinstance(recorded, Mapping) and isinstance(found, Mapping):
        yield from _in_mappings(recorded, found, path)
    elif isinstance(recorded, list) and isinstance(found, list):
        yield from _in_lists(recorded, found, path)
    elif _normal(recorded, path) != _normal(found, path):
        yield f"{path or 'answer'}: recorded {_shown(recorded)}, found {_shown(found)}"


def _in_mappings(recorded: Mapping[str, Any], found: Mapping[str, Any], path: str) -> Iterator[str]:
    for key in sorted({*recorded, *found}):
        where = f"{path}.{key}" if path else key
        if key not in found:
            yield f"{where}: recorded {_shown(recorded[key])}, found nothing"
        elif key not in recorded:
            yield f"{where}: recorded nothing, found {_shown(found[key])}"
        else:
            yield from differences(recorded[key], found[key], where)


def _in_lists(recorded: list[Any], found: list[Any], path: str) -> Iterator[str]:
    names = [_names(each) for each in (recorded, found)]
    if all(names):
        yield from _in_mappings(names[0], names[1], path)
        return
    if len(recorded) != len(found):
        yield f"{path}: recorded {len(recorded)} of them, found {len(found)}"
    for index, (one, other) in enumerate(zip(recorded, found, strict=False)):
        yield from differences(one, other, f"{path}[{index}]")


def _names(items: list[Any]) -> dict[str, Any]:
    """Resources by the last part of their name; nothing when they have none."""
    if not all(isinstance(item, Mapping) and isinstance(item.get("name"), str) for item in items):
        return {}
    return {_normal(item["name"], "").rpartition("/")[2]: item for item in items}


def _normal(value: Any, path: str) -> Any:
    if path.rpartition(".")[2] in _OWN and value:
        return "<own>"
    if not isinstance(value, str):
        return value
    for pattern, substitute in _SUBSTITUTIONS:
        value = pattern.sub(substitute, value)
    return value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
