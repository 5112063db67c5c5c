"""Which names take part in a copy: globs of the command line, and .tpuctlignore.

A pattern means what it means in .gitignore (https://git-scm.com/docs/gitignore), for the path below
the local directory, whether the bytes come from there or go there.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tpuctl.errors import LocalIOError, UsageError

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

IGNORE_FILE = ".tpuctlignore"


class Selection:
    """Names that match an `include`, if there are any, and no `exclude`; the last one decides."""

    def __init__(self, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> None:
        self._include = _spec(include)
        self._exclude = _spec(exclude)

    def matches(self, name: str) -> bool:
        """Whether a file takes part."""
        if self._include is not None and not self._include.match_file(name):
            return False
        return self._exclude is None or not self._exclude.match_file(name)

    def may_contain(self, directory: str) -> bool:
        """Whether anything below a directory can take part."""
        return self._exclude is None or not self._exclude.match_file(f"{directory}/")


def selection(root: str, include: Sequence[str], exclude: Sequence[str]) -> Selection:
    """The patterns of a directory's .tpuctlignore, then those given. Raises UsageError."""
    path = Path(root, IGNORE_FILE)
    try:
        lines = path.read_text("utf-8").splitlines() if path.is_file() else []
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise LocalIOError(f"cannot read {path}: {why}") from error
    return Selection(include, [*lines, *exclude])


def _spec(patterns: Sequence[str]) -> "GitIgnoreSpec | None":
    if not patterns:
        return None
    from pathspec import GitIgnoreSpec  # nobody who filters nothing pays for its import

    try:
        return GitIgnoreSpec.from_lines(patterns)
    except ValueError as error:
        raise UsageError(f"not a pattern: {error}", hint="write it as in .gitignore") from error
