"""Where a value does not keep a JSON schema, as far as the schema of plan files uses its words."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Rule = Mapping[str, Any]


def faults(value: Any, rule: Rule, path: str = "$") -> list[str]:
    """The paths of what is wrong; of rules of which one must hold, those of the nearest."""
    if "anyOf" in rule:
        return min((faults(value, each, path) for each in rule["anyOf"]), key=_distance)
    known = [rule["const"]] if "const" in rule else rule.get("enum")
    if known is not None:
        return [] if value in known else [path]
    return list(_CHECKS[rule["type"]](value, rule, path))


def _distance(found: list[str]) -> tuple[int, int]:
    """Fewer faults are nearer, and those that lie deeper."""
    return len(found), -max(map(len, found), default=0)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _in_object(value: Any, rule: Rule, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield path
        return
    yield from (f"{path}.{name}" for name in rule.get("required", ()) if name not in value)
    for key, below in value.items():
        if key in rule["properties"]:
            yield from faults(below, rule["properties"][key], f"{path}.{key}")
        else:
            yield f"{path}.{key}"


def _in_array(value: Any, rule: Rule, path: str) -> Iterator[str]:
    if not isinstance(value, list) or len(value) < rule["minItems"]:
        yield path
        return
    for each in value:
        yield from faults(each, rule["items"], path)


def _in_string(value: Any, rule: Rule, path: str) -> Iterator[str]:
    if not (
        isinstance(value, str)
        and len(value) >= rule.get("minLength", 0)
        and re.search(rule.get("pattern", ""), value)
    ):
        yield path


def _in_number(value: Any, rule: Rule, path: str) -> Iterator[str]:
    is_right = _is_number(value) and rule["minimum"] <= value <= rule["maximum"]
    if not is_right or (rule["type"] == "integer" and value != int(value)):
        yield path


def _in_boolean(value: Any, _rule: Rule, path: str) -> Iterator[str]:
    if not isinstance(value, bool):
        yield path


_CHECKS: Mapping[str, Callable[[Any, Rule, str], Iterator[str]]] = {
    "object": _in_object,
    "array": _in_array,
    "string": _in_string,
    "number": _in_number,
    "integer": _in_number,
    "boolean": _in_boolean,
}
