"""A YAML file becomes a tree of nodes that know their lines, or one line of error."""

from pathlib import Path

import yaml
from yaml.reader import ReaderError

from tpuctl.errors import UsageError

MAX_BYTES = 1024 * 1024
HINT = "see docs/job-file.md"


def compose(path: Path) -> yaml.Node:
    """The one document of a file; raises UsageError."""
    text = _text(path)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(path, error) from error
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        reason = str(error).splitlines()[0]
        raise UsageError(f"{path} is not YAML (line {line}): {reason}", hint=HINT) from error
    except RecursionError as error:
        raise UsageError(f"{path} is not YAML: it is nested too deeply", hint=HINT) from error
    except (ValueError, OverflowError) as error:  # an escape such as "\UFFFFFFFF"
        raise UsageError(f"{path} is not YAML: {error}", hint=HINT) from error
    if node is None:
        raise UsageError(f"{path} is empty", hint=HINT)
    return node


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(f"{path} is larger than a job file can be (1 MiB)")
        return path.read_text("utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}", hint="give the path of a job file"
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text") from error


def _syntax_error(path: Path, error: yaml.MarkedYAMLError) -> UsageError:
    mark = error.problem_mark or error.context_mark
    line = f" (line {mark.line + 1})" if mark else ""
    problem = error.problem or error.context or "it cannot be read"
    if r"'\t'" in problem:
        return UsageError(f"{path} has a tab where spaces belong{line}", hint="indent with spaces")
    return UsageError(f"{path} is not YAML{line}: {problem}", hint=HINT)
