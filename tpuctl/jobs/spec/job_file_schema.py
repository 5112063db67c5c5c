"""Reads a YAML document by job-file.schema.json: the same document that editors complete by."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from tpuctl import bounded_yaml
from tpuctl.bounded_yaml import YamlError
from tpuctl.errors import UsageError, unreadable_error
from tpuctl.jobs.spec import scalars
from tpuctl.jobs.spec.first_job_file import refuse_program
from tpuctl.jobs.spec.scalars import MismatchError, PatternError, RangeError
from tpuctl.jobs.spec.skypilot_keys import refuse_skypilot_keys

FILE = "job-file.schema.json"
HINT = "run: tpuctl help job-file"
NO_FILE_HINT = "give the path of a job file; to get one, run: tpuctl job init"
Schema = Mapping[str, Any]
NEAR_CUTOFF = 0.55
"""Of two names: `zone` is close to `zones`, and not to `name`."""
FoundFields = Iterator[tuple[str, Any, int]]
"""The dotted path of a key, its value, and the line it stands on."""


@cache
def load_schema() -> Schema:
    """The schema of job files: JSON Schema 2020-12, as far as `read` interprets it."""
    text = resources.files("tpuctl.jobs.spec").joinpath(FILE).read_text("utf-8")
    schema: Schema = json.loads(text)
    return schema


@dataclass(frozen=True, slots=True)
class Document:
    """The values of a file by their dotted path, and the line each stands on."""

    values: Mapping[str, Any]
    lines: Mapping[str, int]

    def get(self, path: str, default: Any = None) -> Any:
        """The value at a path such as `resources.use_spot`."""
        return self.values.get(path, default)

    def below(self, path: str) -> dict[str, Any]:
        """The entries of a mapping with free keys."""
        start = f"{path}."
        return {
            key.removeprefix(start): value
            for key, value in self.values.items()
            if key.startswith(start)
        }

    def place(self, path: str) -> str:
        """`resources.use_spot (line 9)`, as errors name a key; of no file, the key alone."""
        line = self.lines.get(path)
        return f"{path} (line {line})" if line else path


def compose(path: Path) -> yaml.Node:
    """The one document of a file; raises UsageError, NotFoundError, LocalIOError."""
    try:
        node = bounded_yaml.compose_file(path)
    except YamlError as error:
        refuse_program(path)
        raise UsageError(f"{path} {error}", hint=error.hint or HINT) from error
    except OSError as error:
        raise unreadable_error(path, error, hint=NO_FILE_HINT) from error
    if node is None:
        raise UsageError(f"{path} is empty", hint=HINT)
    return node


def read(root: yaml.Node) -> Document:
    """Check a YAML document against the schema; raises UsageError."""
    refuse_skypilot_keys(root)
    fields = list(_mapping(root, load_schema(), ""))
    lines = {path: line for path, _, line in fields}
    return Document({path: value for path, value, _ in fields}, lines)


def read_part(node: yaml.Node | None, key: str, path: str) -> Document:
    """Check one item of the list `key` of a job file, which goes by `path`; raises UsageError."""
    if node is None:
        raise UsageError(f"{path} is empty", hint=HINT)
    items: Schema = load_schema()["properties"][key]["items"]
    values = {name: value for name, value, _ in _mapping(node, items, path)}
    return Document(values, dict.fromkeys(values, 0))


def _mapping(node: yaml.Node, schema: Schema, path: str) -> FoundFields:
    """Everything below a mapping, in the order of the file."""
    if not isinstance(node, yaml.MappingNode):
        subject = f"{path} (line {scalars.line_of(node)})" if path else "a job file"
        is_hidden = _is_secret(schema) and isinstance(node, yaml.ScalarNode)
        given = "a value" if is_hidden else scalars.display_text(node)
        raise UsageError(f"{subject} must be a mapping of keys to values, not {given}")
    seen: set[str] = set()
    for key_node, value in node.value:
        key = _key(key_node, schema, path)
        if key in seen:
            line = scalars.line_of(key_node)
            raise UsageError(f"key {scalars.quote(key)}{_where(path)} is given twice (line {line})")
        seen.add(key)
        below = schema.get("properties", {}).get(key) or schema["additionalProperties"]
        yield from _field(_resolved(below), key_node, value, f"{path}.{key}".lstrip("."))
    for name in schema.get("required", ()):
        if name not in seen:
            raise UsageError(f"{path or 'the job file'} has no {name!r}", hint=HINT)


def _field(schema: Schema, key: yaml.Node, value: yaml.Node, path: str) -> FoundFields:
    kinds = schema.get("type") or ""
    if kinds == "object" or ("object" in kinds and isinstance(value, yaml.MappingNode)):
        yield path, None, scalars.line_of(key)
        yield from _mapping(value, schema, path)
        return
    if kinds == "array" and schema["items"].get("type") == "object":
        yield path, None, scalars.line_of(key)
        yield from _mappings(value, schema["items"], path)
        return
    try:
        yield path, _value(value, schema), scalars.line_of(key)
    except MismatchError as error:
        raise _refusal(f"{path} (line {scalars.line_of(value)})", value, schema, error) from error


def _mappings(node: yaml.Node, schema: Schema, path: str) -> FoundFields:
    """Everything below a list of mappings: the first one goes by `path[0]`."""
    if not isinstance(node, yaml.SequenceNode):
        place = f"{path} (line {scalars.line_of(node)})"
        raise UsageError(f"{place} must be a list of {schema['title']}s", hint=HINT)
    for number, item in enumerate(node.value):
        yield f"{path}[{number}]", None, scalars.line_of(item)
        yield from _mapping(item, schema, f"{path}[{number}]")


def _refusal(place: str, value: yaml.Node, schema: Schema, error: MismatchError) -> UsageError:
    if not _is_secret(schema) and not isinstance(error, PatternError):
        given = scalars.display_text(error.item or value)
        return UsageError(f"{place} must be {error}, not {given}")
    message, hint = scalars.pattern_message(schema)
    subject = place if _is_secret(schema) else f"{place}: {scalars.display_text(value)}"
    return UsageError(f"{subject} {message}", hint=hint)


def _value(node: yaml.Node, schema: Schema) -> Any:
    """A scalar or a list of scalars; raises MismatchError."""
    kinds = schema.get("type") or ""
    if "array" not in kinds or (kinds != "array" and not isinstance(node, yaml.SequenceNode)):
        return scalars.scalar_value(node, schema)
    items = _resolved(schema["items"])
    wanted = f"a list of {items['title']}s"
    if not isinstance(node, yaml.SequenceNode):
        raise MismatchError(wanted)
    return [_item(item, items, wanted) for item in node.value]


def _item(node: yaml.Node, schema: Schema, wanted: str) -> Any:
    try:
        return scalars.scalar_value(node, schema)
    except MismatchError as error:
        is_told = isinstance(error, RangeError) or "enum" in schema
        text = f"{wanted}, each {error}" if is_told else wanted
        raise MismatchError(text, node) from error


def _key(node: yaml.Node, schema: Schema, path: str) -> str:
    """The name of a key that the schema allows; raises UsageError."""
    line = scalars.line_of(node)
    if not isinstance(node, yaml.ScalarNode):
        raise _unknown(scalars.display_text(node), schema, path, line)
    key = str(node.value)
    names = schema.get("propertyNames")
    if names is None:
        if key not in schema["properties"]:
            raise _unknown(key, schema, path, line)
    elif not scalars.matches_pattern(key, _resolved(names)):
        message, hint = scalars.pattern_message(_resolved(names))
        name = "a key" if _is_secret(schema) else scalars.shorten(key)
        raise UsageError(f"{path}.{name} (line {line}) {message}", hint=hint)
    return key


def _resolved(schema: Schema) -> Schema:
    """A schema with what it refers to; its own words come first."""
    reference = schema.get("$ref")
    if reference is None:
        return schema
    return {**load_schema()["$defs"][reference.rpartition("/")[2]], **schema}


def _unknown(key: str, schema: Schema, path: str, line: int) -> UsageError:
    known = sorted(schema.get("properties", ()))
    near = _nearest(key[:100], known, path)
    advice = f"; did you mean {near!r}?" if near else ""
    return UsageError(
        f"unknown key {scalars.quote(key)}{_where(path)} (line {line}){advice}",
        hint=f"known keys: {', '.join(known)}" if known else None,
    )


def _nearest(key: str, known: Sequence[str], path: str) -> str | None:
    """A key of the same mapping, or of another one with its path, that is written like this."""
    elsewhere = {name: place for place, name in _places() if place.rpartition(".")[0] != path} | {
        name: name for name in known
    }
    near = get_close_matches(key, sorted(elsewhere), n=1, cutoff=NEAR_CUTOFF)
    return elsewhere[near[0]] if near else None


@cache
def _places() -> list[tuple[str, str]]:
    """The path and the name of every key."""
    places = []
    for name, schema in load_schema()["properties"].items():
        places += [(f"{name}.{below}", below) for below in schema.get("properties", {})]
        places.append((name, name))
    return places


def _is_secret(schema: Schema) -> bool:
    """What stands here may be a value that must not be repeated."""
    return bool(schema.get("writeOnly"))


def _where(path: str) -> str:
    return f" in {path}" if path else ""
