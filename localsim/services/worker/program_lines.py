"""Reads what the programs of jobs write, on the workers' disks, for a timeline that waits for it.

tpuctl's agent keeps their output below the home directory of whoever runs it, in files that grow;
docs/agent-protocol.md describes them. Each line begins with the time at which it came.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from operator import methodcaller
from pathlib import Path
from typing import Any, Protocol

from localsim.rules.cloud import Cloud
from localsim.rules.scenario.timeline_types import LineTrigger
from localsim.workers.disk.slice_disk import WorkerDisk

POLL_S = 0.04
MOST_BYTES = 4 * 1024 * 1024
"""So much of a file is read at once; the rest is read at the next look."""
_LOGS = ".tpuctl/jobs/*/log/*"
_HOMES = ("home", "upper/%2F/root", "upper/%2F/home/*")
"""Where the home directories are, in process and namespace isolation."""


class WaitingCloud(Protocol):
    """The cloud, and how to wait for it."""

    @property
    def cloud(self) -> Cloud:
        """The cloud, to look at."""

    async def run(self, action: Callable[[Cloud], Any]) -> Any:
        """Change the cloud."""

    async def until(self, condition: Callable[[Cloud], bool], wait_s: float | None) -> None:
        """Return when the condition is true."""


@dataclass(frozen=True, slots=True)
class ProgramLines:
    """Lets the entries of a timeline happen that wait for a line of a program."""

    world: WaitingCloud
    list_disks: Callable[[], Iterable[tuple[str, WorkerDisk]]]
    """`NODE/WORKER` and the disk of each worker that runs."""
    _offsets: dict[str, dict[Path, int]] = field(default_factory=dict)
    """By entry, how far each file is read; what was there when it was armed is passed over."""

    async def live(self) -> None:
        """Look for new lines as long as an entry waits for one, until cancelled."""
        while True:
            await self.world.until(lambda cloud: bool(_waiting(cloud)), None)
            await self.look()
            await asyncio.sleep(POLL_S)

    async def look(self) -> None:
        """Read what is new, once."""
        waiting, disks = _waiting(self.world.cloud), tuple(self.list_disks())
        for name in self._offsets.keys() - waiting.keys():
            del self._offsets[name]
        for name, trigger in waiting.items():
            if await asyncio.to_thread(self._has_come, name, trigger, disks):
                await self.world.run(methodcaller("let_entry_come", name))

    def _has_come(
        self, name: str, trigger: LineTrigger, disks: Sequence[tuple[str, WorkerDisk]]
    ) -> bool:
        """Whether a new line of a worker that the entry means matches its expression."""
        paths = [
            path
            for sender, disk in disks
            if fnmatchcase(sender, trigger.worker)
            for path in log_files(disk)
        ]
        if name not in self._offsets:
            self._offsets[name] = {path: _size_bytes(path) for path in paths}
            return False
        pattern, offsets = re.compile(trigger.pattern), self._offsets[name]
        found = False
        for path in paths:
            lines, offsets[path] = new_lines(path, offsets.get(path, 0))
            found = any(map(pattern.search, lines)) or found
        return found


def log_files(disk: WorkerDisk) -> Iterator[Path]:
    """The files with the output of the programs of jobs, on one worker's disk."""
    for home in _HOMES:
        for path in sorted(disk.directory.glob(f"{home}/{_LOGS}")):
            if path.is_file() and not path.is_symlink():
                yield path


def new_lines(path: Path, offset: int) -> tuple[list[str], int]:
    """The whole lines behind an offset, without their times, and the offset behind them."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read(MOST_BYTES)
    except OSError:  # it has just been removed
        return [], offset
    whole, newline, _ = data.rpartition(b"\n")
    lines = whole.decode(errors="replace").splitlines() if newline else []
    return [line.partition(" ")[2] for line in lines], offset + len(whole) + len(newline)


def _waiting(cloud: Cloud) -> dict[str, LineTrigger]:
    """The entries that wait for a line."""
    return {
        each.entry.name: each.entry.trigger
        for each in cloud.timeline()
        if each.waits and isinstance(each.entry.trigger, LineTrigger)
    }


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
