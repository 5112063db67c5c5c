"""Which files of a tree stay behind: .gitignore and .tpuctlignore, in the tree and below it.

A pattern means what it means in .gitignore (https://git-scm.com/docs/gitignore): it is for the
directory of its file and below, deeper files and later lines decide, `!` takes back, and nothing
comes back out of a directory that stays behind. .tpuctlignore is read after .gitignore.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

IGNORE_FILES = (".gitignore", ".tpuctlignore")


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The patterns of one directory, and those of the directories above it."""

    directory: str = ""
    """Below the tree's root, with a slash at its end; empty for the root."""
    spec: "GitIgnoreSpec | None" = None
    above: "IgnoreRules | None" = None

    def leaves(self, name: str) -> bool:
        """A path below the root, with a slash at its end if it is a directory, stays behind."""
        rules: IgnoreRules | None = self
        while rules is not None:
            if rules.spec is not None:
                found = rules.spec.check_file(name.removeprefix(rules.directory)).include
                if found is not None:
                    return found
            rules = rules.above
        return False

    def below(self, path: Path, directory: str) -> "IgnoreRules":
        """The rules in a directory of the tree. Raises OSError."""
        lines = [line for name in IGNORE_FILES for line in _lines(path / name)]
        return IgnoreRules(directory, ignore_spec(lines), self) if lines else self


def ignore_spec(patterns: Sequence[str]) -> "GitIgnoreSpec":
    """Patterns, without those that are none: git passes over them too."""
    from pathspec import GitIgnoreSpec  # nobody who ignores nothing pays for its import

    try:
        return GitIgnoreSpec.from_lines(patterns)
    except ValueError:
        return GitIgnoreSpec.from_lines(filter(_is_pattern, patterns))


def _is_pattern(line: str) -> bool:
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


def _lines(path: Path) -> list[str]:
    if path.is_symlink() or not path.is_file():  # git follows no link either
        return []
    return path.read_text("utf-8", "surrogateescape").splitlines()
