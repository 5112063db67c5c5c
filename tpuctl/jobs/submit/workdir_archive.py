"""The working directory of a job as one archive: the same bytes for the same files.

.gitignore and .tpuctlignore, in the tree and below it, say which files stay behind. A pattern means
what it means in .gitignore (https://git-scm.com/docs/gitignore): it is for the directory of its
file and below, deeper files and later lines decide, `!` takes back, and nothing comes back out of a
directory that stays behind. .tpuctlignore is read after .gitignore.
"""

import gzip
import hashlib
import io
import mmap
import os
import re
import shlex
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tpuctl.errors import LocalIOError, RefusedError, UsageError
from tpuctl.jobs.spec.scalars import shorten

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

IGNORE_FILES = (".gitignore", ".tpuctlignore")
ALWAYS_IGNORED = frozenset({".git", "__pycache__", ".venv"})
"""What stays behind whatever anybody says."""
MAX_BYTES = 512 * 1024 * 1024
PRIVATE_KEY = re.compile(
    rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----(?:\s|\\r|\\n)+[A-Za-z0-9+/=:, -]{32}"
)
TYPE = re.compile(rb'"type"\s*:\s*"(service_account|authorized_user)"')
KEY_STORES = frozenset({".p12", ".pfx", ".ppk", ".jks"})
"""Suffixes of files that hold a private key in some binary form."""

ArchiveFile = tuple[str, Path]
"""A file by its name in the archive, and where it is."""


def pack(
    directory: Path,
    target: io.BufferedRandom,
    include: Sequence[str] = (),
    *,
    secret_files: Sequence[Path] = (),
    say: Callable[[str], None] = lambda _line: None,
) -> str:
    """Write a tar.gz of the regular files of a tree; returns its SHA-256.

    `include`: patterns of files that are wanted although an ignore file names them or they hold a
    key. `secret_files` stay behind in any case, under whatever name, and `say` gets a line. Raises
    UsageError when the tree is too large or a pattern matches nothing, RefusedError when a file
    holds a key or a link leads out of the tree, LocalIOError when one cannot be read.
    """
    with _read_errors():
        _write(_checked_files(directory, include, secret_files, say), target)
    target.seek(0)
    digest = hashlib.file_digest(target, "sha256").hexdigest()
    target.seek(0)
    return digest


def survey(
    directory: Path,
    include: Sequence[str] = (),
    *,
    secret_files: Sequence[Path] = (),
    say: Callable[[str], None] = lambda _line: None,
) -> tuple[int, int]:
    """How many files `pack` would write, and their bytes; it raises what `pack` raises."""
    with _read_errors():
        found = _checked_files(directory, include, secret_files, say)
        return len(found), sum(path.stat().st_size for _, path in found)


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
                is_left = rules.spec.check_file(name.removeprefix(rules.directory)).include
                if is_left is not None:
                    return is_left
            rules = rules.above
        return False

    def below(self, path: Path, directory: str) -> "IgnoreRules":
        """The rules in a directory of the tree. Raises OSError."""
        lines = [line for name in IGNORE_FILES for line in _ignore_lines(path / name)]
        return IgnoreRules(directory, _ignore_spec(lines), self) if lines else self


@dataclass(slots=True)
class WorkdirTree:
    """A working directory, and the patterns that insist on some of its files."""

    root: Path
    include: Sequence[str]
    specs: dict[str, "GitIgnoreSpec"] = field(init=False)
    unmatched: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.specs = {pattern: _ignore_spec([pattern]) for pattern in self.include}
        self.unmatched = set(self.include)

    def files(self) -> Iterator[ArchiveFile]:
        """Every file that goes along, in one order on every machine. Raises OSError."""
        # Directories to look into: path, name below the root with a slash at its end, the rules
        # above it, and whether it stays behind with everything that nobody insists on.
        waiting = [(self.root, "", IgnoreRules(), False)]
        while waiting:
            directory, prefix, above, stays = waiting.pop()
            rules = above if stays else above.below(directory, prefix)
            below = []
            for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
                if entry.name in ALWAYS_IGNORED:
                    continue
                name = prefix + entry.name
                is_directory = entry.is_dir(follow_symlinks=False)
                is_left = stays or rules.leaves(f"{name}/" if is_directory else name)
                if is_directory and (self.include or not is_left):
                    below.append((Path(entry.path), f"{name}/", rules, is_left))
                elif not is_directory and (self.is_included(name) or not is_left):
                    yield from self._file(name, entry)
            waiting += reversed(below)

    def is_included(self, name: str) -> bool:
        """Somebody asked for this very file."""
        matching = {pattern for pattern, spec in self.specs.items() if spec.match_file(name)}
        self.unmatched -= matching
        return bool(matching)

    def check_includes(self) -> None:
        """A pattern that matches nothing is misspelt; raises UsageError."""
        for pattern in sorted(self.unmatched):
            raise UsageError(
                f"--include {pattern!r} matches no file of the workdir {self.root}",
                hint="write it as in .gitignore, relative to the workdir",
            )

    def _file(self, name: str, entry: "os.DirEntry[str]") -> Iterator[ArchiveFile]:
        path = Path(entry.path)
        if entry.is_symlink():
            _check_link(self.root, path, name)
        if path.is_file():
            yield name, path


def _ignore_spec(patterns: Sequence[str]) -> "GitIgnoreSpec":
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


def _ignore_lines(path: Path) -> list[str]:
    if path.is_symlink() or not path.is_file():  # git follows no link either
        return []
    return path.read_text("utf-8", "surrogateescape").splitlines()


def _check_link(root: Path, path: Path, name: str) -> None:
    if why := _link_problem(root, path):
        raise RefusedError(
            f"workdir: {shorten(name)} {why}",
            hint="put the files themselves there, or name the link in .tpuctlignore",
        )


def _link_problem(root: Path, link: Path) -> str | None:
    target = _target(link)
    if target is None:
        return "is a link that leads to itself"
    if not target.is_relative_to(root):
        return "leads out of it"
    return "is a link to a directory" if target.is_dir() else None


def _target(link: Path) -> Path | None:
    """Where a link leads in the end; None for one that leads to itself."""
    try:
        target = link.resolve()
    except RuntimeError:
        return None
    return None if target.is_symlink() else target  # so Python 3.13 gives it back


@contextmanager
def _read_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LocalIOError(f"cannot read {error.filename}: {error.strerror}") from error


def _checked_files(
    directory: Path,
    include: Sequence[str],
    secret_files: Sequence[Path],
    say: Callable[[str], None],
) -> list[ArchiveFile]:
    """The files that go along, none too many and none with a key. Raises as `pack`, and OSError."""
    tree = WorkdirTree(directory.resolve(), include)
    found = list(_without_secrets(tree.files(), secret_files, say))
    tree.check_includes()
    _check_size(directory, found)
    for name, path in found:
        if not tree.is_included(name):
            _check_key(name, path)
    return found


def _without_secrets(
    found: Iterator[ArchiveFile], secret_files: Sequence[Path], say: Callable[[str], None]
) -> Iterator[ArchiveFile]:
    """A link, or a second name, of such a file is the same file. Raises OSError."""
    held = {_identity(path) for path in secret_files if path.exists()}
    for name, path in found:
        if held and _identity(path) in held:
            say(f"{shorten(name)} is a secret's file: it is not sent with the workdir")
        else:
            yield name, path


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def _check_size(directory: Path, found: list[ArchiveFile]) -> None:
    if sum(path.stat().st_size for _, path in found) > MAX_BYTES:
        raise UsageError(
            f"workdir {directory} holds more than 512 MiB",
            hint="keep data in the bucket (tpuctl data push), name the rest in .tpuctlignore",
        )


def _check_key(name: str, path: Path) -> None:
    if kind := _kind_of_key(path):
        raise RefusedError(
            f"workdir: {shorten(name)} holds {kind}",
            hint="name it in .tpuctlignore: the slice has an account of its own; "
            f"if it must go along: --include {shlex.quote('/' + name)}",
        )


def _kind_of_key(path: Path) -> str | None:
    """What kind of key a file holds; None when it holds none. Raises OSError."""
    if path.suffix.lower() in KEY_STORES:
        return "a private key, by its name"
    if path.stat().st_size == 0:
        return None
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        return _kind_of_text(text)


def _kind_of_text(text: mmap.mmap) -> str | None:
    # A plain search first: most files have none of these words.
    if text.find(b"_account") >= 0 or text.find(b"_user") >= 0:
        account = TYPE.search(text)
        if account and account[1] == b"service_account" and text.find(b'"private_key"') >= 0:
            return "a service account key"
        if account and account[1] == b"authorized_user" and text.find(b'"refresh_token"') >= 0:
            return "a person's Google credentials"
    if text.find(b" PRIVATE KEY-----") >= 0 and PRIVATE_KEY.search(text):
        return "a private key"
    return None


def _write(found: list[ArchiveFile], target: io.BufferedRandom) -> None:
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=target, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, path in found:
            with path.open("rb") as file:
                tar.addfile(_entry(name, os.fstat(file.fileno())), file)


def _entry(name: str, status: os.stat_result) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size = status.st_size
    entry.mode = 0o755 if status.st_mode & 0o100 else 0o644
    return entry
