r"""The states of a directory that POSIX allows after a power loss, from a trace of system calls.

As ALICE does it (Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014): what was
synced is there; of the rest, any part may be there, in any order. In particular

- `fsync` of a file keeps its bytes, its size and its times, `fdatasync` its bytes and its size;
- a name is kept by `fsync` of its directory, and by nothing else;
- a write that was not synced may be there in half, or be zeros under the new size;
- a rename happens or does not: no state has both names, or none.
"""

import hashlib
import itertools
import os
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from system.power_loss.syscall_trace import DELETED, Call

ROOT = 0
"""The number of the directory that is looked at; each file and directory below it has one too."""


@dataclass(frozen=True)
class Change:
    """A change of one file (its number) or of the names in one directory."""

    at: int
    """The line of the trace by which it had happened."""
    kind: str
    """write, size, times, enter or leave; a rename is both at once."""
    file: int
    """The file that is written, or the directory whose names change."""
    offset: int = 0
    """Of the bytes; the size of `size`; the nanoseconds of `times`."""
    data: bytes = b""
    name: str = ""
    child: int = -1
    old_directory: int = -1
    old_name: str = ""


@dataclass
class History:
    """All changes, when each became durable, and what was acknowledged when."""

    changes: list[Change] = field(default_factory=list)
    directories: set[int] = field(default_factory=lambda: {ROOT})
    durable_at: dict[int, int] = field(default_factory=dict)
    """The line at which a change, by its index, was surely on the disk."""
    marks: list[tuple[int, str]] = field(default_factory=list)

    def pending(self, line: int) -> list[int]:
        """The changes that had happened by a line and may be lost."""
        return [
            index
            for index, change in enumerate(self.changes)
            if change.at <= line < self.durable_at.get(index, line + 1)
        ]

    def acknowledged(self, line: int) -> tuple[str, ...]:
        """The labels of what had been acknowledged by a line."""
        return tuple(label for at, label in self.marks if at <= line)


@dataclass(frozen=True)
class CrashState:
    """What the disk holds after a power loss at a line: all changes but the lost ones."""

    line: int
    lost: frozenset[int]
    torn: Mapping[int, str]
    """Writes of which `half` is there, or which are `zeros`."""

    def __str__(self) -> str:
        return f"power loss at line {self.line}: lost {sorted(self.lost)}, torn {dict(self.torn)}"


class Recorder:
    """Reads calls and follows which file has which name."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._names: dict[int, dict[str, int]] = {ROOT: {}}
        self._unlinked: dict[str, int] = {}
        self._numbers = itertools.count(1)
        self._sizes: dict[int, int] = {}
        self._positions: dict[tuple[str, int], int] = {}
        self._appending: set[tuple[str, int]] = set()
        self._cwd = ""
        self._volatile: dict[int, list[int]] = {}
        """The changes of each file that may be lost, by their index."""
        self.history = History()

    def read(self, calls: Iterable[Call]) -> History:
        """The history of a trace; raises NotImplementedError on a call that is not modelled."""
        for call in calls:
            if "AT_FDCWD<" in call.arguments:
                self._cwd = call.descriptors[call.arguments[:8] != "AT_FDCWD"]
            if (label := call.mark) is not None:
                self.history.marks.append((call.ended, label))
            else:
                getattr(self, f"_on_{call.name}", self._refuse)(call)
        return self.history

    # Files

    def _on_openat(self, call: Call) -> None:
        if (place := self._place(call.result_path)) is None:
            return
        directory, name = place
        key = self._key(call.result, call.result_path)
        self._positions[key] = 0
        self._appending.discard(key)
        if "O_APPEND" in call.arguments:
            self._appending.add(key)
        file = self._names[directory].get(name)
        if file is None:
            file = self._new(directory, name, call)
            self._sizes[file] = 0
        elif "O_TRUNC" in call.arguments and self._sizes.get(file):
            self._resize(call, file, 0)

    _on_open = _on_creat = _on_openat

    def _on_write(self, call: Call) -> None:
        if (file := self._file(call.descriptors[0])) is not None:
            key = self._key(_number(call), call.descriptors[0])
            at_end = key in self._appending
            offset = self._sizes[file] if at_end else self._positions.get(key, 0)
            self._write(call, file, offset)
            self._positions[key] = offset + call.result

    _on_writev = _on_write

    def _on_pwrite64(self, call: Call) -> None:
        if (file := self._file(call.descriptors[0])) is not None:
            self._write(call, file, int(call.arguments.rsplit(", ", 1)[1]))

    _on_pwritev = _on_pwrite64

    def _on_pwritev2(self, call: Call) -> None:
        if (file := self._file(call.descriptors[0])) is not None:
            self._write(call, file, int(call.arguments.rsplit(", ", 2)[1]))

    def _on_lseek(self, call: Call) -> None:
        self._positions[self._key(_number(call), call.descriptors[0])] = call.result

    def _on_ftruncate(self, call: Call) -> None:
        if (file := self._file(call.descriptors[0])) is not None:
            self._resize(call, file, int(call.arguments.rsplit(", ", 1)[1]))

    def _on_fallocate(self, call: Call) -> None:
        if (file := self._file(call.descriptors[0])) is not None:
            _, mode, offset, length = call.arguments.rsplit(", ", 3)
            if mode == "0":
                self._resize(call, file, max(self._sizes[file], int(offset) + int(length)))

    def _on_utimensat(self, call: Call) -> None:
        path = call.descriptors[0]
        if call.texts:
            path = str(Path(path, os.fsdecode(call.texts[0])))
        if (file := self._file(path)) is not None and "tv_nsec=" in call.arguments:
            seconds = call.arguments.rsplit("tv_sec=", 1)[1].split(",")[0]
            rest = call.arguments.rsplit("tv_nsec=", 1)[1].split("}")[0].split(" ")[0]
            self._add(call, "times", file, offset=int(seconds) * 10**9 + int(rest))

    def _on_fsync(self, call: Call) -> None:
        self._keep(call, ("write", "size", "times", "enter", "leave"))

    def _on_fdatasync(self, call: Call) -> None:
        self._keep(call, ("write", "size", "enter", "leave"))

    # Names

    def _on_mkdirat(self, call: Call) -> None:
        if (place := self._place(self._path(call, 0))) is not None:
            number = self._new(*place, call)
            self._names[number] = {}
            self.history.directories.add(number)

    _on_mkdir = _on_mkdirat

    def _on_renameat(self, call: Call) -> None:
        old, new = self._place(self._path(call, 0)), self._place(self._path(call, 1))
        if old is None and new is None:
            return
        assert old is not None, "a file was moved into the directory"
        assert new is not None, "a file was moved out of the directory"
        child = self._names[old[0]].pop(old[1])
        self._forget(*new)
        self._names[new[0]][new[1]] = child
        self._add(
            call, "enter", new[0], name=new[1], child=child, old_directory=old[0], old_name=old[1]
        )

    _on_rename = _on_renameat2 = _on_renameat

    def _on_linkat(self, call: Call) -> None:
        old, new = self._file(self._path(call, 0)), self._place(self._path(call, 1))
        if new is not None:
            assert old is not None, "a file was linked into the directory"
            self._names[new[0]][new[1]] = old
            self._add(call, "enter", new[0], name=new[1], child=old)

    _on_link = _on_linkat

    def _on_unlinkat(self, call: Call) -> None:
        if (place := self._place(self._path(call, 0))) is not None:
            self._forget(*place)
            self._add(call, "leave", place[0], name=place[1])

    _on_unlink = _on_rmdir = _on_unlinkat

    def _on_recvfrom(self, call: Call) -> None:
        """Nothing but marks is of interest in what was received."""

    _on_recvmsg = _on_recvfrom

    def _on_sendfile(self, call: Call) -> None:
        """Refuse what writes to a file: sockets are of no interest."""
        if self._is_below(call.descriptors[0]):
            raise NotImplementedError(f"sendfile to {call.descriptors[0]} is not modelled")

    def _refuse(self, call: Call) -> None:
        if any(self._is_below(path) for path in call.descriptors):
            raise NotImplementedError(f"{call.name} is not modelled: {call.descriptors}")

    # The directory as the program sees it

    def _new(self, directory: int, name: str, call: Call) -> int:
        child = next(self._numbers)
        self._names[directory][name] = child
        self._add(call, "enter", directory, name=name, child=child)
        return child

    def _forget(self, directory: int, name: str) -> None:
        child = self._names[directory].pop(name, None)
        if child is not None:
            self._unlinked[f"{directory}/{name}"] = child

    def _write(self, call: Call, file: int, offset: int) -> None:
        data = b"".join(call.texts)[: call.result]
        self._sizes[file] = max(self._sizes[file], offset + len(data))
        self._add(call, "write", file, offset=offset, data=data)

    def _resize(self, call: Call, file: int, size_bytes: int) -> None:
        if size_bytes != self._sizes[file]:
            self._sizes[file] = size_bytes
            self._add(call, "size", file, offset=size_bytes)

    def _keep(self, call: Call, kinds: tuple[str, ...]) -> None:
        if (file := self._file(call.descriptors[0])) is None:
            return
        left = []
        for index in self._volatile.pop(file, ()):
            change = self.history.changes[index]
            if change.kind in kinds and change.at < call.begun:
                self.history.durable_at[index] = call.ended
            else:
                left.append(index)
        self._volatile[file] = left

    def _add(self, call: Call, kind: str, file: int, **facts: object) -> None:
        self._volatile.setdefault(file, []).append(len(self.history.changes))
        self.history.changes.append(Change(call.ended, kind, file, **facts))  # type: ignore[arg-type]

    def _path(self, call: Call, number: int) -> str:
        path = os.fsdecode(call.texts[number])
        folder = call.descriptors[number] if number < len(call.descriptors) else self._cwd
        return str(Path(folder, path))

    def _key(self, descriptor: int, path: str) -> tuple[str, int]:
        return (str(self._file(path)), descriptor)

    def _is_below(self, path: str) -> bool:
        return path == self._root or path.startswith(f"{self._root}/")

    def _place(self, path: str) -> tuple[int, str] | None:
        """The directory and the name of a path below the root, which may not exist."""
        path = os.path.normpath(path)
        if not path.startswith(f"{self._root}/"):
            return None
        parts = PurePosixPath(path).relative_to(self._root).parts
        directory = ROOT
        for part in parts[:-1]:
            directory = self._names[directory][part]
        return directory, parts[-1]

    def _file(self, path: str) -> int | None:
        """The number of the file that a path leads to, also when it was unlinked."""
        if path == self._root:
            return ROOT
        deleted = path.endswith(DELETED)
        place = self._place(path.removesuffix(DELETED))
        if place is None:
            return None
        directory, name = place
        if deleted:
            return self._unlinked[f"{directory}/{name}"]
        return self._names[directory].get(name)


def crash_states(history: History, seed: int, count: int) -> Iterator[CrashState]:
    """A sample of the states after a power loss, one after each acknowledgement first.

    At each line: all that may be lost is lost, or nothing; each change lost alone, or kept alone;
    each write in half, or as zeros; and parts drawn at random.
    """
    rng = random.Random(seed)
    for line, _ in history.marks:
        yield CrashState(line, frozenset(history.pending(line)), {})
    lines = sorted({change.at for change in history.changes} | {at for at, _ in history.marks})
    for _ in range(count):
        yield rng.choice(list(_states_at(history, rng.choice(lines), rng)))


def _states_at(history: History, line: int, rng: random.Random) -> Iterator[CrashState]:
    pending = history.pending(line)
    everything = frozenset(pending)
    yield CrashState(line, frozenset(), {})
    yield CrashState(line, everything, {})
    for index in pending:
        yield CrashState(line, frozenset({index}), {})
        yield CrashState(line, everything - {index}, {})
        if history.changes[index].kind == "write":
            yield CrashState(line, frozenset(), {index: "half"})
            yield CrashState(line, frozenset(), {index: "zeros"})
    for _ in range(min(len(pending), 4)):
        yield CrashState(line, frozenset(rng.sample(pending, rng.randrange(len(pending)))), {})


class _Disk:
    """Files by number, as changes make them."""

    def __init__(self) -> None:
        self.names: dict[int, dict[str, int]] = {}
        self.contents: dict[int, bytearray] = {}
        self.times: dict[int, int] = {}

    def apply(self, change: Change, torn: str | None) -> None:
        """Make one change, or a part of a write."""
        if change.kind == "write":
            self._write(change, torn)
        elif change.kind == "size":
            self._resize(change.file, change.offset)
        elif change.kind == "times":
            self.times[change.file] = change.offset
        elif change.kind == "leave":
            self.names.setdefault(change.file, {}).pop(change.name, None)
        else:
            if change.old_directory >= 0:
                self.names.setdefault(change.old_directory, {}).pop(change.old_name, None)
            self.names.setdefault(change.file, {})[change.name] = change.child

    def _write(self, change: Change, torn: str | None) -> None:
        content = self.contents.setdefault(change.file, bytearray())
        data = change.data
        if torn == "half":
            data = data[: len(data) // 2]
        elif torn == "zeros":
            data = bytes(len(data))
        if len(content) < change.offset + len(data):
            content.extend(bytes(change.offset + len(data) - len(content)))
        content[change.offset : change.offset + len(data)] = data

    def _resize(self, file: int, size_bytes: int) -> None:
        content = self.contents.setdefault(file, bytearray())
        del content[size_bytes:]
        content.extend(bytes(size_bytes - len(content)))


def disk_of(history: History, state: CrashState) -> _Disk:
    """The files of a state."""
    disk = _Disk()
    for index, change in enumerate(history.changes):
        if change.at <= state.line and index not in state.lost:
            disk.apply(change, state.torn.get(index))
    return disk


def write_out(history: History, state: CrashState, target: Path) -> str:
    """Make the files of a state below a new directory; returns a digest of all of them."""
    disk = disk_of(history, state)
    digest = hashlib.sha256()
    _write_directory(disk, ROOT, target, history.directories, digest)
    return digest.hexdigest()


def _write_directory(
    disk: _Disk, number: int, path: Path, directories: set[int], digest: "hashlib._Hash"
) -> None:
    path.mkdir()
    for name, child in sorted(disk.names.get(number, {}).items()):
        digest.update(f"{path.name}/{name}\0".encode())
        if child in directories:
            _write_directory(disk, child, path / name, directories, digest)
            continue
        content = bytes(disk.contents.get(child, b""))
        (path / name).write_bytes(content)
        time_ns = disk.times.get(child, 0)
        os.utime(path / name, ns=(time_ns, time_ns))
        digest.update(content + str(time_ns).encode())


def _number(call: Call) -> int:
    return int(call.arguments.split("<", 1)[0])
