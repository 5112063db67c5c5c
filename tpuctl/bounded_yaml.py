"""Reads YAML files within bounds of size, nesting and aliases, and refuses others at once.

Aliases cost a writer a few bytes and a reader the whole of what they stand for, and merge keys copy
it: a value counts as often as it is mentioned.
"""

from pathlib import Path
from typing import Any

import yaml
from yaml.reader import ReaderError

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 64
MAX_VALUES = 100_000


class YamlError(ValueError):
    """What is wrong with a file, in words that follow its path."""

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.hint = hint


def load_file(path: Path) -> Any:
    """The value of a file's one document; raises OSError and YamlError."""
    loader, node = _composed(_text(path))
    if node is None:
        return None
    try:
        return loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        raise _described(error) from error
    except (ValueError, ArithmeticError, LookupError, AttributeError, TypeError) as error:
        # A day of month 13, or a tag such as !!float in front of what is none.
        raise YamlError(f"has a value that cannot be read: {_one_line(error)}") from error


def compose_file(path: Path) -> yaml.Node | None:
    """The tree of a file's one document, None where it is empty; raises OSError and YamlError."""
    return _composed(_text(path))[1]


def compose_text(text: str) -> yaml.Node | None:
    """The tree of a text's one document, None where it is empty; raises YamlError."""
    return _composed(text)[1]


class _BoundedLoader(yaml.SafeLoader):
    """PyYAML's loader of plain values, with an end to what a document may ask for."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._values = 0
        self._sizes: dict[int, int] = {}
        """The number of values in each node that is complete, by the node's id."""

    def fetch_flow_collection_start(self, token_class: Any) -> None:
        """Open a list or mapping in brackets."""
        self._check_depth()
        super().fetch_flow_collection_start(token_class)

    def add_indent(self, column: int) -> bool:
        """Open a list or mapping by indentation, where `column` is deeper than the last one."""
        self._check_depth()
        return super().add_indent(column)

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Build the next value of the document, or find the one that an alias stands for."""
        before, is_alias = self._values, self.check_event(yaml.AliasEvent)
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        node = super().compose_node(parent, index)
        if is_alias and id(node) not in self._sizes:
            raise _LimitError("has an alias inside the value that it stands for", mark)
        self._values += self._sizes[id(node)] if is_alias else 1
        if self._values > MAX_VALUES:
            raise _LimitError(f"has more than {MAX_VALUES} values, its aliases included", mark)
        self._sizes[id(node)] = self._values - before
        return node

    def _check_depth(self) -> None:
        if self.flow_level + len(self.indents) >= MAX_DEPTH:
            raise _LimitError(f"is nested more than {MAX_DEPTH} levels deep", self.get_mark())


class _LimitError(yaml.MarkedYAMLError):
    """A document that is YAML and asks for more than any file of ours needs."""

    def __init__(self, reason: str, mark: yaml.Mark) -> None:
        super().__init__(problem=reason, problem_mark=mark)


def _composed(text: str) -> tuple[_BoundedLoader, yaml.Node | None]:
    try:
        loader = _BoundedLoader(text)
        return loader, loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        raise _described(error) from error
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise YamlError(f"is not YAML (line {line}): {_one_line(error)}") from error
    except (ValueError, OverflowError) as error:  # an escape such as "\UFFFFFFFF"
        raise YamlError(f"is not YAML: {_one_line(error)}") from error


def _text(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise YamlError(f"is larger than {MAX_BYTES // 1024**2} MiB")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise YamlError("is not UTF-8 text") from error


def _described(error: yaml.MarkedYAMLError) -> YamlError:
    mark = error.problem_mark or error.context_mark
    line = f" (line {mark.line + 1})" if mark else ""
    problem = error.problem or error.context or "it cannot be read"
    if isinstance(error, _LimitError):
        return YamlError(f"{problem}{line}")
    if r"'\t'" in problem:
        return YamlError(f"has a tab where spaces belong{line}", hint="indent with spaces")
    return YamlError(f"is not YAML{line}: {problem}")


def _one_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
