"""The values of a plan as they were typed: options and the keys of a file under the same paths."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tpuctl import catalog
from tpuctl.errors import UsageError, unreadable_error
from tpuctl.models.planning.mesh_text import AXES
from tpuctl.perfmodel.workload.transformer import (
    Attention,
    Experts,
    LatentAttention,
    LinearAttention,
    Transformer,
)

if TYPE_CHECKING:
    import yaml

HINT = "run: tpuctl help planning"
_SCALAR_TAG = "tag:yaml.org,2002:"


class GivenValue(NamedTuple):
    """A text that was typed, and what a message calls the place where it stands."""

    text: str
    name: str


GivenValues = Mapping[str, GivenValue]
"""The path of a key, such as `run.tokens` -> what was given for it."""


def _names(record: type) -> tuple[str, ...]:
    return tuple(each.name for each in fields(record))


KEYS: Mapping[str, tuple[str, ...]] = {
    "": ("model", "run", "serve", "slices", "limits"),
    "model": _names(Transformer),
    "model.experts": _names(Experts),
    "model.attention": _names(Attention),
    "model.attention.latent": _names(LatentAttention),
    "model.attention.linear": _names(LinearAttention),
    "run": ("tokens", "seq", "batch", "batch_tokens", "remat", "precision", "optimizer", "mesh"),
    "run.mesh": AXES,
    "serve": ("in", "out", "rate", "latency", "weight_bits", "cache_bits", "tensor"),
    "slices": ("types", "generations", "zone", "num_slices", "spot", "preempted_every"),
    "limits": ("days", "usd"),
}
"""The path of a mapping -> its keys; another path is that of a value."""
TEXTS = ("model", "run.mesh")
"""The mappings in place of which a text may stand."""


def read_file(path: Path) -> GivenValues:
    """The values of a plan file by their paths; raises UsageError, NotFoundError, LocalIOError."""
    from tpuctl import bounded_yaml  # 20 ms that a plan without a file need not pay

    try:
        node = bounded_yaml.compose_file(path)
    except bounded_yaml.YamlError as error:
        raise UsageError(f"{path} {error}", hint=error.hint or HINT) from error
    except OSError as error:
        raise unreadable_error(path, error, hint=_missing_hint(path)) from error
    if node is None or not _is(node, "mapping"):
        raise UsageError(f"{path} is not a plan: it has no keys such as model and run", hint=HINT)
    return dict(_values_below(node, ""))


def _missing_hint(path: Path) -> str:
    """What a person means who gives the name of a model in place of a file."""
    try:
        return f"a model is named by an option: --model {catalog.public_model(str(path)).name}"
    except catalog.UnknownError:
        return HINT


def _values_below(node: "yaml.Node", path: str) -> Iterator[tuple[str, GivenValue]]:
    seen: set[str] = set()
    for key_node, value in node.value:
        key, line = str(key_node.value)[:60], _line_of(key_node)
        if key not in KEYS[path]:
            raise _unknown_key_error(key, path, line)
        if key in seen:
            raise UsageError(f"key {key!r} is given twice (line {line})")
        seen.add(key)
        below = f"{path}.{key}".lstrip(".")
        if _is(value, "mapping") and below in KEYS:
            yield from _values_below(value, below)
        elif below in KEYS and below not in TEXTS:
            raise UsageError(
                f"{below} (line {line}) has no keys", hint=f"known keys: {', '.join(KEYS[below])}"
            )
        else:
            yield below, GivenValue(_text_of(value, below), f"{below} (line {line})")


def _text_of(node: "yaml.Node", path: str) -> str:
    """The text of a value, or those of a list with commas between; raises UsageError."""
    nodes = node.value if _is(node, "sequence") else [node]
    if not nodes or not all(_is(each, "scalar") for each in nodes):
        raise UsageError(f"{path} (line {_line_of(node)}) is not a value", hint=HINT)
    if any(each.tag == f"{_SCALAR_TAG}null" for each in nodes):
        raise UsageError(f"{path} (line {_line_of(node)}) has no value", hint=HINT)
    return ",".join(str(each.value) for each in nodes)


def _unknown_key_error(key: str, path: str, line: int) -> UsageError:
    near = catalog.nearest(key, KEYS[path])
    advice = f"; did you mean {near[0]!r}?" if near else ""
    where = f" in {path}" if path else ""
    return UsageError(
        f"unknown key {key!r}{where} (line {line}){advice}",
        hint=f"known keys: {', '.join(KEYS[path])}",
    )


def _is(node: "yaml.Node", kind: str) -> bool:
    """Whether a node is a mapping, a sequence or a scalar."""
    return getattr(node, "id", "") == kind


def _line_of(node: "yaml.Node") -> int:
    return int(node.start_mark.line) + 1


def values_under(values: GivenValues, path: str) -> dict[str, GivenValue]:
    """The values below a path, by the rest of their paths."""
    start = f"{path}."
    return {
        key.removeprefix(start): value for key, value in values.items() if key.startswith(start)
    }


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """The mapping whose dotted paths are given: `{"a.b": 1}` becomes `{"a": {"b": 1}}`."""
    found: dict[str, Any] = {}
    for path, value in values.items():
        *parents, name = path.split(".")
        place = found
        for parent in parents:
            place = place.setdefault(parent, {})
        place[name] = value
    return found
