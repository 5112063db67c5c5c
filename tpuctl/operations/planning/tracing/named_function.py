"""The function that a person names, and what it is traced with."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class TraceError(Exception):
    """What the person can mend; its text is shown as it is, and the hint after it."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint


def load(target: str) -> Any:
    """The function at `module:name` or `file.py:name`. Raises TraceError."""
    place, _, name = target.rpartition(":")
    module = load_file(Path(place)) if place.endswith(".py") else load_module(place)
    member = module
    for part in name.split("."):
        if not hasattr(member, part):
            raise missing_name(target, place, member, part)
        member = getattr(member, part)
    if not callable(member):
        raise TraceError(f"{target} is of type {type(member).__name__} and cannot be called")
    return member


def missing_name(target: str, place: str, member: Any, part: str) -> TraceError:
    """The error for a name that a module does not have, with those it has."""
    own = [name for name, value in vars(member).items() if name[0] != "_" and callable(value)]
    here = [
        name for name in own if getattr(vars(member)[name], "__module__", None) == member.__name__
    ]
    hint = f"it has: {', '.join(sorted(here)[:10])}" if here else ""
    return TraceError(f"{place} has no {part!r}, which {target} names", hint)


def load_module(name: str) -> Any:
    """A module by its name, from the directory of the command too."""
    try:
        found = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise TraceError(f"no module named {name!r}", "name a module, or a file as train.py:step")
    return importlib.import_module(name)


def load_file(path: Path) -> Any:
    """A module from its file, whose neighbours it may import."""
    if not path.is_file():
        raise TraceError(f"there is no file {str(path)!r}")
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise TraceError(f"{str(path)!r} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def program_of(target: str, shapes: Sequence[Sequence[Any]] | None) -> tuple[Any, ...]:
    """The function to trace and its abstract arguments. Raises TraceError."""
    function = load(target)
    if shapes is not None:
        return (function, *(abstract(*shape) for shape in shapes))
    wanted = required_arguments(function)
    if wanted:
        names = ", ".join(wanted)
        raise TraceError(
            f"{target} takes arguments ({names}), and their shapes are not given",
            "give them: --args 'f32[8,128] i32[8]'; or name a function without arguments that "
            "returns (function, *arguments)",
        )
    answer = function()
    if not isinstance(answer, (tuple, list)) or not answer or not callable(answer[0]):
        raise TraceError(
            f"{target} returns a value of type {type(answer).__name__}, not (function, *arguments)",
            "return the function to trace and its arguments: arrays or jax.ShapeDtypeStruct",
        )
    return tuple(answer)


def required_arguments(function: Any) -> list[str]:
    """The names of the arguments without which a function cannot be called."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in parameters if p.default is p.empty and p.kind in kinds]


def abstract(dtype: str, sides: Sequence[int]) -> Any:
    """An argument of which only type and shape are known. Raises TraceError."""
    jax = importlib.import_module("jax")
    try:
        return jax.ShapeDtypeStruct(tuple(sides), jax.numpy.dtype(dtype))
    except TypeError as error:
        raise TraceError(f"JAX has no type {dtype!r}") from error
