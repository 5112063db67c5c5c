"""One scalar of a YAML document as JSON Schema describes it: its value, or what it must be."""

import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import yaml

from tpuctl.errors import UsageError
from tpuctl.models.duration import parse_duration

_YAML = "tag:yaml.org,2002:"
_WHOLE = re.compile(r"-?[0-9]{1,15}")
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")
_NO_TEXT = re.compile(r"[\0\ud800-\udfff]")
"""What YAML's escapes can write and neither an environment nor UTF-8 can hold."""
_TRUE = ("true", "yes", "on")
_FALSE = ("false", "no", "off")
DURATION = "#/$defs/duration"
LONGEST_SHOWN = 60


class MismatchError(ValueError):
    """A value is not what its schema wants; the message says what it must be.

    `item`: the one of a list that it is about.
    """

    def __init__(self, text: str = "", item: yaml.Node | None = None) -> None:
        super().__init__(text)
        self.item = item


class PatternError(MismatchError):
    """A string does not match its schema's pattern; the schema says what to tell."""


class RangeError(MismatchError):
    """A number is of the right kind and out of its schema's bounds."""


def scalar_value(node: yaml.Node, schema: Mapping[str, Any]) -> Any:
    """The value of a scalar; raises MismatchError."""
    if schema.get("$ref") == DURATION:
        return _duration_s(node)
    if "enum" in schema:
        return _choice(node, schema["enum"])
    kind = schema["type"]
    found = _KINDS[kind](node, schema) if isinstance(kind, str) else _one_of_kinds(node, kind)
    if isinstance(found, str) and not matches_pattern(found, schema):
        raise PatternError
    return found


def matches_pattern(text: str, schema: Mapping[str, Any]) -> bool:
    """A string has the schema's pattern, if there is one."""
    pattern = schema.get("pattern", "")
    return not _NO_TEXT.search(text) and _compiled(pattern).search(text) is not None


def pattern_message(schema: Mapping[str, Any]) -> tuple[str, str]:
    """What to say of a string that does not match the pattern, and how to write it instead."""
    message, _, hint = schema["patternErrorMessage"].partition(": ")
    return message, hint or "run: tpuctl help job-file"


def display_text(node: yaml.Node) -> str:
    """A value as errors repeat it: on one line, and not all of it when it is long."""
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    if _has_tag(node, "null"):
        return "nothing"
    text = str(node.value)
    return quote(text) if _has_tag(node, "str") else shorten(text)


def quote(text: str) -> str:
    """A text in quotes, on one line, not all of it when it is long."""
    return repr(text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "…")


def shorten(text: str) -> str:
    """The same without quotes, where nothing in it needs them."""
    return text if text.isprintable() and len(text) <= LONGEST_SHOWN else quote(text)


def line_of(node: yaml.Node) -> int:
    """The line that a node begins on, counted from 1."""
    return int(node.start_mark.line) + 1


def _text(node: yaml.Node, schema: Mapping[str, Any]) -> str:
    if not _has_tag(node, "str") or _NO_TEXT.search(node.value):
        raise MismatchError("a string")
    if len(node.value) < schema.get("minLength", 0):
        raise MismatchError("a string that is not empty")
    return str(node.value)


def _one_of_kinds(node: yaml.Node, kinds: list[str]) -> str | bool | None:
    """A flag where a mapping may stand; else a string, or a number as it is written, or None."""
    if "boolean" in kinds:
        return _flag(node, {"type": kinds})
    if "null" in kinds and _has_tag(node, "null"):
        return None
    if "number" not in kinds:
        return _text(node, {})
    if not _has_tag(node, "str", "int", "float") or _NO_TEXT.search(node.value):
        raise MismatchError("a string: put it in quotes")
    return str(node.value)


def _flag(node: yaml.Node, schema: Mapping[str, Any]) -> bool:
    word = str(node.value).lower()
    if not _has_tag(node, "bool") or word not in (*_TRUE, *_FALSE):
        is_alone = schema["type"] == "boolean"
        raise MismatchError("true or false" if is_alone else "true, false or a mapping")
    return word in _TRUE


def _integer(node: yaml.Node, schema: Mapping[str, Any]) -> int:
    if not _has_tag(node, "int") or not _WHOLE.fullmatch(node.value):
        raise MismatchError("a whole number")
    return int(_check_range(int(node.value), schema))


def _number(node: yaml.Node, schema: Mapping[str, Any]) -> float:
    if not _has_tag(node, "int", "float") or not _NUMBER.fullmatch(node.value):
        raise MismatchError("a number")
    return _check_range(float(node.value), schema)


def _check_range(found: float, schema: Mapping[str, Any]) -> float:
    if found < schema.get("minimum", found):
        raise RangeError(f"at least {schema['minimum']}")
    if found > schema.get("maximum", found):
        raise RangeError(f"at most {schema['maximum']}")
    if found <= schema.get("exclusiveMinimum", -math.inf):
        raise RangeError(f"more than {schema['exclusiveMinimum']}")
    return found


def _choice(node: yaml.Node, choices: list[str]) -> str:
    if not _has_tag(node, "str") or node.value not in choices:
        raise MismatchError(" or ".join(choices))
    return str(node.value)


def _duration_s(node: yaml.Node) -> float:
    try:
        return parse_duration(_text(node, {}))
    except (UsageError, MismatchError) as error:
        raise MismatchError("a duration such as 90s, 20m or 12h") from error


_KINDS: Mapping[str, Callable[[yaml.Node, Mapping[str, Any]], Any]] = {
    "string": _text,
    "boolean": _flag,
    "integer": _integer,
    "number": _number,
}


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """In JSON Schema `$` is the end and nothing else; in Python a line end may follow."""
    return re.compile(pattern[:-1] + r"\Z" if pattern.endswith("$") else pattern)


def _has_tag(node: yaml.Node, *tags: str) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag in {_YAML + tag for tag in tags}
