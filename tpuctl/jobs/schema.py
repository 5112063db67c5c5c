"""The job file's schema as data: which keys there are, and what kind of value each takes."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import yaml

from tpuctl.errors import UsageError
from tpuctl.models.duration import seconds

_YAML = "tag:yaml.org,2002:"


class MismatchError(ValueError):
    """A value is not of its kind; the message says what it must be."""


@dataclass(frozen=True, slots=True)
class Table:
    """A mapping with known keys."""

    fields: Mapping[str, "Kind"]


@dataclass(frozen=True, slots=True)
class Free:
    """A mapping with any keys, whose values are of one kind."""

    value: "Kind"


Kind = Table | Free | Callable[[yaml.Node], Any]


def text(node: yaml.Node) -> str:
    """A string."""
    if not _is(node, "str"):
        raise MismatchError("a string")
    return str(node.value)


def word(node: yaml.Node) -> str | None:
    """A string or a number as it is written; None for nothing."""
    if _is(node, "null"):
        return None
    if not _is(node, "str", "int", "float"):
        raise MismatchError("a string: put it in quotes")
    return str(node.value)


def flag(node: yaml.Node) -> bool:
    """True or false."""
    if not _is(node, "bool"):
        raise MismatchError("true or false")
    return str(node.value).lower() in ("true", "yes", "on")


def whole(node: yaml.Node) -> int:
    """A whole number that is not negative."""
    if not _is(node, "int") or not str(node.value).isdecimal():
        raise MismatchError("a whole number")
    return int(node.value)


def duration_s(node: yaml.Node) -> float:
    """A duration such as 90s, 20m or 12h."""
    try:
        return seconds(text(node))
    except (UsageError, MismatchError) as error:
        raise MismatchError("a duration such as 90s, 20m or 12h") from error


def one_of(*choices: str) -> Callable[[yaml.Node], str]:
    """One of a few words."""

    def choice(node: yaml.Node) -> str:
        if not _is(node, "str") or node.value not in choices:
            raise MismatchError(" or ".join(choices))
        return str(node.value)

    return choice


def list_of(kind: Callable[[yaml.Node], Any], name: str) -> Callable[[yaml.Node], list[Any]]:
    """A list whose items are of one kind."""

    def items(node: yaml.Node) -> list[Any]:
        if not isinstance(node, yaml.SequenceNode):
            raise MismatchError(f"a list of {name}")
        try:
            return [kind(item) for item in node.value]
        except MismatchError as error:
            raise MismatchError(f"a list of {name}") from error

    return items


JOB = Table(
    {
        "name": text,
        "requires": text,
        "resources": Table(
            {
                "accelerators": text,
                "topology": text,
                "zones": list_of(text, "zones"),
                "use_spot": flag,
                "num_slices": whole,
                "runtime_version": text,
            }
        ),
        "workdir": text,
        "setup": text,
        "run": text,
        "envs": Free(word),
        "secrets": Free(text),
        "file_mounts": Free(text),
        "checkpoints": Table({"dir": text, "keep": whole}),
        "restart": Table(
            {
                "preemption": one_of("always", "never"),
                "failure": whole,
                "exit_codes": list_of(whole, "whole numbers"),
            }
        ),
        "timeouts": Table(
            {"queue": duration_s, "setup": duration_s, "hang": duration_s, "run": duration_s}
        ),
        "teardown": one_of("always", "on-success", "never"),
    }
)


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
        """`resources.use_spot (line 9)`, as errors name a key."""
        return f"{path} (line {self.lines[path]})" if path in self.lines else path


def read(root: yaml.Node) -> Document:
    """Check a YAML document against the schema; raises UsageError."""
    found = list(_table(root, JOB, ""))
    return Document(
        {path: value for path, value, _ in found}, {path: line for path, _, line in found}
    )


def _table(node: yaml.Node, kind: Table | Free, path: str) -> Iterator[tuple[str, Any, int]]:
    if not isinstance(node, yaml.MappingNode):
        subject = f"{path} (line {_line(node)})" if path else "a job file"
        raise UsageError(f"{subject} must be a mapping of keys to values, not {_shown(node)}")
    seen: set[str] = set()
    for key_node, value in node.value:
        key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else _shown(key_node)
        if key in seen:
            raise UsageError(f"key {key!r}{_where(path)} is given twice (line {_line(key_node)})")
        seen.add(key)
        field = kind.value if isinstance(kind, Free) else kind.fields.get(key)
        if field is None or not isinstance(key_node, yaml.ScalarNode):
            raise _unknown(key, kind, path, _line(key_node))
        yield from _field(field, key_node, value, f"{path}.{key}" if path else key)


def _field(
    kind: Kind, key: yaml.Node, value: yaml.Node, path: str
) -> Iterator[tuple[str, Any, int]]:
    if isinstance(kind, Table | Free):
        yield path, None, _line(key)
        yield from _table(value, kind, path)
        return
    try:
        yield path, kind(value), _line(key)
    except MismatchError as error:
        raise UsageError(
            f"{path} (line {_line(value)}) must be {error}, not {_shown(value)}"
        ) from error


def _unknown(key: str, kind: Table | Free, path: str, line: int) -> UsageError:
    known = sorted(kind.fields) if isinstance(kind, Table) else []
    near = get_close_matches(key, known, n=1, cutoff=0.5)
    advice = f"; did you mean {near[0]!r}?" if near else ""
    return UsageError(
        f"unknown key {key!r}{_where(path)} (line {line}){advice}",
        hint=f"known keys: {', '.join(known)}",
    )


def _where(path: str) -> str:
    return f" in {path}" if path else ""


def _is(node: yaml.Node, *tags: str) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag in {_YAML + tag for tag in tags}


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _shown(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    value = str(node.value)
    return "nothing" if _is(node, "null") else repr(value) if _is(node, "str") else value
