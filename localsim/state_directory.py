"""The directory of one simulated cloud: marker, lock, token, remembered ports."""

import fcntl
import json
import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MARKER = "localsim.json"
SCHEMA = 1
LOCK_TRIES = 20
LOCK_PAUSE_S = 0.01  # a client that looks whether the lock is held, holds it for an instant


class ServeError(Exception):
    """The reason why a simulator cannot serve; `exit_code` is one of tpuctl's."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class StateDirectory:
    """A directory that this process holds until it ends, however it ends."""

    path: Path
    lock: int

    @property
    def endpoints(self) -> Path:
        """The file of endpoints, which exists only while the ports are open."""
        return self.path / "endpoints.json"

    def private(self, name: str) -> Path:
        """A file that only its owner can read, created at first use.

        Raises ServeError.
        """
        path = self.path / name
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            os.fchmod(descriptor, 0o600)
            os.close(descriptor)
        except OSError as error:
            raise ServeError(f"cannot use {path}: {error.strerror}", 60) from error
        return path

    def token(self) -> str:
        """The secret of the control port, readable by the owner alone."""
        return load_or_create_secret(self.path / "control.token")

    def remembered_ports(self) -> dict[str, int]:
        """The ports of the last run, so that clients find a restarted server."""
        try:
            ports = json.loads((self.path / "ports.json").read_text("ascii"))
            return {str(name): int(port) for name, port in ports.items()}
        except (OSError, ValueError, TypeError, AttributeError, RecursionError):
            return {}

    def require_present(self, name: str, *, is_empty: bool) -> None:
        """Raise ServeError where state was served before and `name` is empty."""
        if is_empty and (self.path / "ports.json").exists():
            raise ServeError(f"the state in {self.path} is lost: {name} is empty", 62)

    def write(self, name: str, document: Mapping[str, Any]) -> None:
        """Replace a small JSON file in one step."""
        write_private(self.path / name, json.dumps(document).encode())


def claim(path: Path) -> StateDirectory:
    """Claim the directory, created when it does not exist; raises ServeError."""
    try:
        _create(path)
        foreign = {entry.name for entry in path.iterdir()} - {"lock"}
        if foreign and not (path / MARKER).is_file():
            raise ServeError(f"{path} holds something else; choose another directory", 80)
        path.chmod(0o700)
        lock = _lock(path)
        _check_marker(path)
        (path / "endpoints.json").unlink(missing_ok=True)
    except OSError as error:
        raise ServeError(f"cannot use {path}: {error.strerror}", 60) from error
    return StateDirectory(path, lock)


def load_or_create_secret(path: Path) -> str:
    """The secret in a 0600 file, created at first use; raises OSError, ValueError."""
    if not path.exists() or not path.read_text("ascii"):
        write_private(path, secrets.token_urlsafe(32).encode())
    return path.read_text("ascii")


def write_private(path: Path, data: bytes) -> None:
    """Write a 0600 file that exists as a whole or not at all, and is durable."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    synchronize(path.parent)


def synchronize(path: Path) -> None:
    """Flush a file's bytes, or a directory's entries, to disk; blocks, and raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _create(path: Path) -> None:
    """Make a directory and those above it, each durable; raises OSError."""
    missing = [directory for directory in (path, *path.parents) if not directory.exists()]
    for directory in reversed(missing):
        directory.mkdir(mode=0o700, exist_ok=True)
        synchronize(directory.parent)


def _lock(path: Path) -> int:
    lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(LOCK_PAUSE_S)
        else:
            os.truncate(lock, 0)
            os.write(lock, str(os.getpid()).encode())
            return lock
    holder = (path / "lock").read_text("ascii").strip()
    os.close(lock)
    raise ServeError(f"{path} is served by process {holder} already", 61)


def _check_marker(path: Path) -> None:
    marker = path / MARKER
    if not marker.is_file():
        write_private(marker, json.dumps({"schema": SCHEMA}).encode())
    try:
        schema = int(json.loads(marker.read_text("ascii"))["schema"])
    except (ValueError, KeyError, TypeError):
        raise ServeError(f"{marker} cannot be read", 62) from None
    if schema > SCHEMA:
        raise ServeError(f"{path} was written by a newer localsim", 62)
