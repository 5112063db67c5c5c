"""The working directory of a job as one archive: the same bytes for the same files."""

import gzip
import hashlib
import os
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from tpuctl.errors import LocalIOError, RefusedError, UsageError

SKIPPED = frozenset({".git", "__pycache__", ".venv"})
MAX_BYTES = 512 * 1024 * 1024
SCANNED_BYTES = 1024 * 1024
PRIVATE_KEY = re.compile(
    rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----(?:\s|\\r|\\n)+[A-Za-z0-9+/=:, -]{32}"
)
SERVICE_ACCOUNT = re.compile(rb'"type"\s*:\s*"service_account"')


def pack(directory: Path, target: BinaryIO) -> str:
    """Write a tar.gz of the regular files of a tree; returns its SHA-256.

    Raises UsageError when the tree is too large, RefusedError when a file holds a key or a link
    leads out of the tree, LocalIOError when a file cannot be read.
    """
    try:
        found = list(_files(directory))
        _check_size(directory, found)
        for name, path in found:
            _check_secrets(name, path)
        _write(found, target)
    except OSError as error:
        raise LocalIOError(f"cannot read {error.filename}: {error.strerror}") from error
    target.seek(0)
    digest = hashlib.sha256()
    while block := target.read(SCANNED_BYTES):
        digest.update(block)
    target.seek(0)
    return digest.hexdigest()


def _files(directory: Path) -> Iterator[tuple[str, Path]]:
    """Every regular file by its name in the archive, in one order on every machine."""
    root = directory.resolve()
    for parent, directories, names in os.walk(root, onerror=_raise):
        linked = [name for name in directories if Path(parent, name).is_symlink()]
        directories[:] = sorted(set(directories) - SKIPPED - set(linked))
        for name in sorted([*names, *linked]):
            path = Path(parent, name)
            inside = path.relative_to(root).as_posix()
            if path.is_symlink():
                _check_link(root, path, inside)
            if path.is_file() and name not in SKIPPED:
                yield inside, path


def _raise(error: OSError) -> None:
    raise error


def _check_link(root: Path, path: Path, name: str) -> None:
    target = path.resolve()
    if not target.is_relative_to(root) or target.is_dir():
        why = "is a link to a directory" if target.is_relative_to(root) else "leads out of it"
        raise RefusedError(
            f"workdir: {name} {why}", hint="put the files themselves there, or remove the link"
        )


def _check_size(directory: Path, found: list[tuple[str, Path]]) -> None:
    if sum(path.stat().st_size for _, path in found) > MAX_BYTES:
        raise UsageError(
            f"workdir {directory} holds more than 512 MiB",
            hint="keep data in the bucket: tpuctl data push",
        )


def _check_secrets(name: str, path: Path) -> None:
    with path.open("rb") as file:
        text = file.read(SCANNED_BYTES)
    kind = "a private key" if PRIVATE_KEY.search(text) else None
    if SERVICE_ACCOUNT.search(text) and b'"private_key"' in text:
        kind = "a service account key"
    if kind:
        raise RefusedError(
            f"workdir: {name} holds {kind}",
            hint="move it out of the workdir: the slice has a service account of its own",
        )


def _write(found: list[tuple[str, Path]], target: BinaryIO) -> None:
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
