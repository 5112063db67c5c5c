"""Runs over one bucket in memory, and which of their steps must be the one that is restored.

Every save has a number of its own that is in its tree. From the changes of the bucket follows which
saves were committed, and which run went on from which: the model knows nothing of how the protocol
decides, only what its records say when they land.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tpuctl.checkpoint.read.step_reader import restore_newest
from tpuctl.errors import NoCheckpointError
from tpuctl.store import Entry
from unit.checkpoint.memory_store import Change, MemoryBucket, MemoryStore
from unit.checkpoint.runs import same
from unit.checkpoint.taking_turns import TurnsOfTime

COMMIT = re.compile(r"step_(\d{12})/COMMIT")
ROLLBACK = re.compile(r"ROLLBACK_(\d{16})")
ANNOUNCED = re.compile(r"(?:RUN|ROLLBACK)_(\d{16})")
BAD = re.compile(r"step_\d{12}/BAD_(\d+)")
FOREIGN = "step_000000000010/notes.txt"


class Save(NamedTuple):
    """One call of save by one run."""

    number: int
    fence: int
    step: int


class Commit(NamedTuple):
    """A COMMIT that lies in the bucket."""

    save: Save
    key: str
    generation: int
    files: tuple[tuple[str, int], ...]


def tree(number: int) -> dict[str, Any]:
    """What a save stores: some of it on each worker, some on one."""
    random = np.random.default_rng(number)
    return {"save": np.int64(number), "w": random.random((4, 3)), "b": [random.random(1)]}


@dataclass
class World:
    """The bucket, and what is known of it."""

    keep: int = 1
    bucket: MemoryBucket = field(default_factory=MemoryBucket)
    time: TurnsOfTime = field(default_factory=TurnsOfTime)
    saves: list[Save] = field(default_factory=list)
    written: dict[int, Save] = field(default_factory=dict)
    """Generation of a file -> the save that put it."""
    rotten: set[tuple[str, int]] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)
    """What was taken away by damage, not by a run."""
    origins: dict[int, Save | None] = field(default_factory=dict)
    """Fence -> where that run went on, as its ROLLBACK said when it landed."""
    committed: set[Save] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    now: dict[str, Entry] = field(default_factory=dict)
    commits: dict[str, Commit] = field(default_factory=dict)
    _seen: int = 0

    def __post_init__(self) -> None:
        MemoryStore(self.bucket).put_if_absent(FOREIGN, b"not ours")

    @property
    def newest_run(self) -> int:
        """The greatest fence that has said where it goes on; 0 for none."""
        return max(self.origins, default=0)

    @property
    def announced(self) -> int:
        """The greatest fence that anything was written with on behalf of a run as a whole."""
        found = [ANNOUNCED.fullmatch(key) for key in self.now]
        return max((int(match[1]) for match in found if match), default=0)

    def begin_save(self, fence: int, step: int) -> Save:
        save = Save(len(self.saves) + 1, fence, step)
        self.saves.append(save)
        return save

    def look(self) -> None:
        """Take notice of what was changed since the last time."""
        changes, self._seen = self.bucket.changes[self._seen :], len(self.bucket.changes)
        for change in changes:
            if change.entry is None:
                self._deleted(change)
            else:
                self._put(change, change.entry)

    def line(self) -> Iterator[tuple[int, int]]:
        """The runs that the newest one comes from, itself first: fence, and up to which step."""
        fence, last_step = self.newest_run, 10**12
        while fence:
            yield fence, last_step
            origin = self.origins.get(fence)
            if origin is None:
                return
            fence, last_step = origin.fence, min(origin.step, last_step)

    def on_line(self) -> list[Commit]:
        """The commits that count, newest first."""
        line = list(self.line())
        found = [
            commit
            for commit in self.commits.values()
            if any(commit.save.fence == f and commit.save.step <= last for f, last in line)
        ]
        return sorted(found, key=lambda commit: -commit.save.step)

    def is_whole(self, commit: Commit) -> bool:
        """Whether every byte of it is there."""
        parts = ((commit.key, commit.generation), *commit.files)
        return self.is_listed_whole(commit) and not any(part in self.rotten for part in parts)

    def is_listed_whole(self, commit: Commit) -> bool:
        """Whether a listing finds nothing wrong."""
        return all(
            key in self.now and self.now[key].generation == generation
            for key, generation in commit.files
        ) and not any(
            (match := BAD.fullmatch(key)) and int(match[1]) == commit.generation for key in self.now
        )

    def expected(self) -> Commit | None:
        """What must be restored now."""
        return next((commit for commit in self.on_line() if self.is_whole(commit)), None)

    def is_doubtful(self, commit: Commit | None) -> bool:
        """Whether a damaged ROLLBACK may hide that it was abandoned."""
        fences = [int(m[1]) for key, _ in self.rotten if (m := ROLLBACK.fullmatch(key))]
        return bool(fences) and (commit is None or commit.save.fence < max(fences))

    def read(self) -> None:
        """Restore as somebody who is no run, and compare."""
        expected = self.expected()
        try:
            restored = restore_newest(MemoryStore(self.bucket), None, None)
        except NoCheckpointError as error:
            if expected is not None and not self.is_doubtful(expected):
                self.wrong.append(f"{expected.save} is not restored: {error}")
            return
        self.compare(restored, expected)

    def compare(self, restored: Any, expected: Commit | None) -> None:
        """Whether what was restored is what had to be, whole."""
        number = int(restored.tree["save"])
        if not same(restored.tree, tree(number)):
            self.wrong.append(f"save {number} came back with other numbers")
        if expected is None or (number, restored.step) != expected.save[::2]:
            self.wrong.append(f"step {restored.step} of save {number} instead of {expected}")

    def rot(self, key: str, bit: int) -> None:
        """Flip a bit of an object: no listing tells."""
        entry, data = self.bucket.objects[key]
        if not data:
            return
        changed = bytearray(data)
        changed[bit // 8 % len(data)] ^= 1 << bit % 8
        self.bucket.rot(key, bytes(changed))
        self.rotten.add((key, entry.generation))

    def remove(self, key: str) -> None:
        """Take an object away."""
        self.removed.add(key)
        self.bucket.make(Change(key, None))

    def _put(self, change: Change, entry: Entry) -> None:
        self.now[change.key] = entry
        if COMMIT.fullmatch(change.key):
            self._commit(change, entry)
        elif match := ROLLBACK.fullmatch(change.key):
            self._rollback(int(match[1]), change)

    def _commit(self, change: Change, entry: Entry) -> None:
        before = self.commits.get(change.key)
        if before in self.on_line() and self.is_whole(before):
            self.wrong.append(f"{before} was replaced")
        objects = json.loads(change.data.partition(b"\n")[0])["record"]["objects"]
        saves = {self.written.get(each["generation"]) for each in objects}
        if len(saves) != 1:
            self.wrong.append(f"{change.key} is a mixture of {saves}")
        files = tuple((each["path"], each["generation"]) for each in objects)
        save = saves.pop()
        self.commits[change.key] = Commit(save, change.key, entry.generation, files)
        self.committed.add(save)

    def _rollback(self, fence: int, change: Change) -> None:
        record = json.loads(change.data)["record"]
        if record["from"] == -1:
            self.origins[fence] = None
            return
        key = f"step_{record['from']:012d}/COMMIT"
        commit = self.commits.get(key)
        if commit is not None:
            self.origins[fence] = commit.save
        elif key not in self.removed and fence > self.newest_run:
            self.wrong.append(f"{change.key} names step {record['from']}, which is gone")

    def _deleted(self, change: Change) -> None:
        if change.key not in self.removed:
            self._check_deletion(change.key)
        self.now.pop(change.key)
        self.commits.pop(change.key, None)

    def _check_deletion(self, key: str) -> None:
        """No run deletes what is not ours, or one of the newest `keep` steps that count."""
        if key == FOREIGN:
            self.wrong.append("what is not ours was deleted")
        good = [commit for commit in self.on_line() if self.is_listed_whole(commit)]
        for commit in good[: self.keep]:
            if key == commit.key or key in dict(commit.files):
                self.wrong.append(f"{key} was deleted of {[each.save.step for each in good]}")
