"""Which files of a directory take part in a copy: globs, .tpuctlignore, and the walk itself.

A pattern means what it means in .gitignore (https://git-scm.com/docs/gitignore), for the path below
the local directory, whether the bytes come from there or go there.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tpuctl.errors import LocalIOError, UsageError
from tpuctl.models.transfer import FileIdentity, TransferRefusal, TransferScope
from tpuctl.operations.stage.plan.names import UNFINISHED

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

IGNORE_FILE = ".tpuctlignore"
FoundFile = tuple[str, str, FileIdentity]
"""The name of a file, the file it leads to (itself, unless it is a link), and which one that is."""


class Selection:
    """The files that take part: those that match an `include` pattern, if any, and no `exclude`.

    Of several patterns that match, the last one decides.
    """

    def __init__(self, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> None:
        self._include = _spec(include)
        self._exclude = _spec(exclude)

    def matches(self, name: str) -> bool:
        """Whether the file of that path takes part."""
        if self._include is not None and not self._include.match_file(name):
            return False
        return self._exclude is None or not self._exclude.match_file(name)

    def may_contain(self, directory: str) -> bool:
        """Whether anything below a directory can take part."""
        return self._exclude is None or not self._exclude.match_file(f"{directory}/")


def selection(root: str, scope: TransferScope) -> Selection:
    """The patterns of a directory's .tpuctlignore, then those of a scope.

    Raises UsageError for what is not a pattern, LocalIOError.
    """
    path = Path(root, IGNORE_FILE)
    try:
        lines = path.read_text("utf-8").splitlines() if path.is_file() else []
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise LocalIOError(f"cannot read {path}: {why}") from error
    return Selection(scope.include, [*lines, *scope.exclude])


def walk_files(
    root: str, selection: Selection, *, follow: bool = True
) -> Iterator[FoundFile | TransferRefusal]:
    """Yield every file that takes part, and a refusal for each name that is not a file.

    A link to a regular file of the same tree is that file (unless not `follow`); any other is
    refused.
    """
    waiting = [""]
    while waiting:
        directory = waiting.pop()
        try:
            with os.scandir(os.path.join(root, directory)) as entries:  # noqa: PTH118
                for entry in entries:
                    name = directory + entry.name
                    if entry.name.startswith(UNFINISHED):
                        continue  # what an interrupted pull left
                    if entry.is_dir(follow_symlinks=False):
                        if selection.may_contain(name):
                            waiting.append(f"{name}/")
                    elif selection.matches(name):
                        yield _check_entry(root, name, entry, follow=follow)
        except OSError as error:
            yield TransferRefusal(directory or root, f"cannot be listed: {error.strerror}")


def _spec(patterns: Sequence[str]) -> "GitIgnoreSpec | None":
    if not patterns:
        return None
    from pathspec import GitIgnoreSpec  # nobody who filters nothing pays for its import

    try:
        return GitIgnoreSpec.from_lines(patterns)
    except ValueError as error:
        raise UsageError(f"not a pattern: {error}", hint="write it as in .gitignore") from error


def _check_entry(
    root: str, name: str, entry: os.DirEntry[str], *, follow: bool
) -> FoundFile | TransferRefusal:
    try:
        if entry.is_symlink() and follow:
            return _check_link(root, name)
        status = entry.stat(follow_symlinks=False)
    except OSError as error:
        return TransferRefusal(name, str(error.strerror))
    if not stat.S_ISREG(status.st_mode):
        return TransferRefusal(name, "not a regular file")
    return name, name, FileIdentity.of(status)


def _check_link(root: str, name: str) -> FoundFile | TransferRefusal:
    base = os.path.realpath(root)
    path = os.path.realpath(os.path.join(root, name))  # noqa: PTH118
    if not path.startswith(f"{base.rstrip('/')}/"):
        return TransferRefusal(name, "a symbolic link that leads out of the tree")
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return TransferRefusal(name, "a symbolic link that leads nowhere")
    if not stat.S_ISREG(status.st_mode):
        return TransferRefusal(name, "a symbolic link to what is not a regular file")
    return name, os.path.relpath(path, base), FileIdentity.of(status)
