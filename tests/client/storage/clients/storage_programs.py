"""Programs that other people wrote, run against one storage service: what they share."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from client.storage.storage_fixtures import Service, running

AWKWARD = ("a b/ü.txt", "a b/#1?.txt", "a b/100%2B+.txt", "empty", "large")
"""Names that come to harm where somebody encodes a path once too often or too seldom."""
LARGE_BYTES = 9 * 1024 * 1024 + 1
"""More than what any of them sends in one request."""


@dataclass(frozen=True)
class Done:
    """What a command did."""

    code: int
    out: str
    err: str

    def ok(self) -> str:
        """What it printed, after it has succeeded."""
        assert self.code == 0, self.err
        return self.out

    def refused(self, *words: str) -> None:
        """It failed, saying these words."""
        assert self.code != 0, self.out
        assert [word for word in words if word not in self.err] == [], self.err


def run(argv: list[str], environment: Mapping[str, str], stdin: str = "") -> Done:
    """One command with nothing of this machine's environment but PATH."""
    done = subprocess.run(
        argv,
        env={"PATH": os.environ["PATH"], **environment},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def tree(directory: Path) -> Path:
    """A directory with a file of each awkward name."""
    for name in AWKWARD:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode() * 100)
    (directory / "empty").write_bytes(b"")
    (directory / "large").write_bytes(os.urandom(LARGE_BYTES))
    return directory


def contents(directory: Path) -> dict[str, bytes]:
    """Every file of a directory."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def shared_storage(tmp_path_factory) -> Iterator[Service]:
    """One service for all tests of a module; each makes a bucket of its own."""
    with running(tmp_path_factory.mktemp("storage")) as service:
        yield service
