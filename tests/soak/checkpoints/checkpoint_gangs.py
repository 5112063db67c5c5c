"""Gangs of real processes that save checkpoints, in a directory or in a served bucket."""

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from client.storage.storage_fixtures import Killable

from soak.checkpoints.checkpoint_program import storage_client, tree
from tpuctl.checkpoint.format.commit_schema import Commit
from tpuctl.checkpoint.format.layout import commit_key, done_key, parse_key
from tpuctl.checkpoint.format.manifest import decode_commit
from tpuctl.checkpoint.read.step_reader import Restored, restore_newest
from tpuctl.errors import NoCheckpointError
from tpuctl.store import Store, open_store

SOAK = Path(__file__).parent


@dataclass
class Told:
    """How a worker ended, and what it had been told by then."""

    code: int | str
    """Of the process: 0 also for a program that was told of an error, "stopped", or "hung"."""
    restored: int | None = None
    saved: tuple[int, ...] = ()
    error: str = ""


class Nursery:
    """Starts workers in a few milliseconds: it has loaded what they need."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._numbers = itertools.count()
        self._outs: dict[int, Path] = {}
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(
            [sys.executable, str(SOAK / "checkpoint_nursery.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def start(self, specs: Sequence[dict[str, Any]]) -> list[int]:
        """A process for each."""
        outs = [self._directory / f"{next(self._numbers)}.json" for _ in specs]
        pids: list[int] = self._ask(
            {"start": [{**spec, "out": str(out)} for spec, out in zip(specs, outs, strict=True)]}
        )
        self._outs.update(zip(pids, outs, strict=True))
        return pids

    def wait(self, pids: Sequence[int]) -> list[Told]:
        """What became of them."""
        codes = self._ask({"wait": list(pids)})
        return [self._told(pid, code) for pid, code in zip(pids, codes, strict=True)]

    def run(self, specs: Sequence[dict[str, Any]]) -> list[Told]:
        """Start them all, and wait until each has ended."""
        return self.wait(self.start(specs))

    def close(self) -> None:
        for pid in self._outs:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _told(self, pid: int, code: int | str) -> Told:
        if code == "stopped":
            return Told(code)
        out = self._outs.pop(pid)
        if code != 0 or not out.exists():  # it may have been killed while it wrote
            return Told(code)
        told = json.loads(out.read_text())
        return Told(code, told["restored"], tuple(told["saved"]), told["error"])

    def _ask(self, command: dict[str, Any]) -> Any:
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@dataclass
class Place:
    """Where checkpoints lie, again for each case."""

    kind: str
    root: str
    endpoint: str = ""
    client: Any = None
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def new(self) -> "Checkpoints":
        return Checkpoints(f"{self.root}/{next(self.numbers)}", self.endpoint, self.client)


@dataclass
class Checkpoints:
    """One checkpoint directory."""

    url: str
    endpoint: str = ""
    client: Any = None

    @property
    def store(self) -> Store:
        return open_store(self.url, client=self.client)

    def gang(self, fence: int, worker_count: int, saves: int, **more: Any) -> list[dict]:
        """The specs of a run's workers: after every tenth step a save, so many of them.

        `worker` gives some to one of them alone.
        """
        special: dict[int, dict] = more.pop("worker", {})
        return [
            {
                "directory": self.url,
                "endpoint": self.endpoint,
                "worker_id": worker_id,
                "worker_count": worker_count,
                "fence": fence,
                "saves": saves,
                **more,
                **special.get(worker_id, {}),
            }
            for worker_id in range(worker_count)
        ]

    def keys(self) -> list[str]:
        return [entry.key for entry in self.store.list()]

    def commit(self, step: int) -> Commit:
        """What its COMMIT says."""
        return decode_commit(self.store.get_range(commit_key(step)))

    def committed(self) -> list[int]:
        """The steps that have a COMMIT."""
        names = [parse_key(key) for key in self.keys() if key.endswith("/COMMIT")]
        return [name.step for name in names if name is not None]

    def leaked(self) -> set[str]:
        """What no step that is there is made of, and no run needs."""
        keys = set(self.keys())
        newest = max(key for key in keys if key.startswith("RUN_"))
        said = ("ROLLBACK_", newest, f"RESUME_{newest[4:]}/")
        needed = {key for key in keys if key.startswith(said)}
        for step in self.committed():
            commit = self.commit(step)
            needed |= {commit_key(step), *(stored.path for stored in commit.objects)}
            needed |= {done_key(step, commit.fence, i) for i in range(commit.worker_count)}
        return keys - needed

    def read(self) -> Restored | None:
        """What somebody who is no run finds."""
        try:
            return restore_newest(self.store, None, None)
        except NoCheckpointError:
            return None


def is_right(checkpoints: Checkpoints, restored: Restored) -> bool:
    """Whether every bit is what the run that committed that step saved."""
    return same(restored.tree, tree(restored.step, checkpoints.commit(restored.step).fence))


def same(left: Any, right: Any) -> bool:
    """Whether two trees are equal, dtypes, shapes and bits included."""
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    return (left.dtype, left.shape, left.tobytes()) == (right.dtype, right.shape, right.tobytes())


@contextmanager
def nursery(directory: Path) -> Iterator[Nursery]:
    found = Nursery(directory)
    try:
        yield found
    finally:
        found.close()


@contextmanager
def place(kind: str, directory: Path) -> Iterator[Place]:
    """A directory, or a bucket of a service that is a process of its own."""
    if kind == "directory":
        yield Place(kind, str(directory / "checkpoints"))
        return
    killable = Killable(directory)
    try:
        service = killable.start()
        client = storage_client(service.url)
        client.create_bucket("checkpoints")
        yield Place(kind, "gs://checkpoints", service.url, client)
        client.close()
    finally:
        killable.close()
