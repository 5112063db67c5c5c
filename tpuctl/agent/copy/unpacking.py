"""The half of `node cp` that writes what comes in the frames of `packing`.

No name leads out of the target or through a link. Imported here, and shipped to workers with
`receiving`. Standard library only, Python 3.8.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import json
import os
import struct
from typing import NamedTuple

from tpuctl.agent.copy.partial_file import PartialFile, new_partial_name, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

LARGEST_FRAME_BYTES = 1024 * 1024
HEAD = struct.Struct(">cI")
HOLE = struct.Struct(">Q")
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
FULL = (errno.ENOSPC, errno.EDQUOT)
OBSTACLE_TEXTS = {
    errno.ELOOP: "a symbolic link stands in the way",
    errno.ENOTDIR: "a file or a link stands in the way",
    errno.EISDIR: "a directory stands in the way",
    errno.ENOTEMPTY: "a directory stands in the way",
    errno.EEXIST: "a file or a link stands in the way",
}


class NewDirectory(NamedTuple):
    """A directory that was not there; its mode and time are set once all is in it."""

    path: str
    mode: int
    mtime_ns: int


class Unpacker:
    """Writes a stream below a directory; `say` hears of every failure and of the end."""

    def __init__(self, orders: dict[str, Any], say: Callable[..., None]) -> None:
        self.say = say
        self.files = self.size_bytes = self.failed = 0
        self.coming: dict[str, int] = {}
        self.is_over = False
        self.received_bytes = 0
        self.place, self.top = target_of(orders)
        self.names = orders["names"]
        self.root = os.open(self.place, FOLDER)
        self.made: list[NewDirectory] = []
        self.buffer = bytearray()
        self.parent_path, self.parent = "", os.dup(self.root)
        self.file: PartialFile | None = None
        self.takers: dict[bytes, Callable[[Any], None]] = {
            b"T": self.coming.update,
            b"D": self.take_directory,
            b"L": self.take_link,
            b"F": self.take_file,
            b"E": self.take_end_of_file,
            b"X": lambda found: self.refuse(found["path"], found["why"], found["errno"]),
            b"Z": self.take_end,
        }

    def feed(self, data: bytes) -> None:
        """The next bytes of the stream. Raises ValueError; OSError when the disk is full."""
        self.buffer += data
        at = 0
        while len(self.buffer) - at >= HEAD.size:
            kind, length = HEAD.unpack_from(self.buffer, at)
            if length > LARGEST_FRAME_BYTES:
                raise ValueError(f"a frame of {length} bytes")
            end = at + HEAD.size + length
            if end > len(self.buffer):
                break
            self.take(kind, bytes(self.buffer[at + HEAD.size : end]))
            at = end
        del self.buffer[:at]

    def take(self, kind: bytes, payload: bytes) -> None:
        """One frame; what cannot be written is told, and the rest goes on."""
        if kind in (b"B", b"H"):
            self.grow(kind, payload)
            return
        if kind == b".":
            return
        found = json.loads(payload) if payload else {}
        if kind not in self.takers:
            raise ValueError(f"a frame {kind!r}")
        if "path" in found and kind != b"X":
            found["name"] = self.called(found["path"])
        with self.report_failures(found.get("path", "")):
            self.takers[kind](found)

    def called(self, path: str) -> str:
        """The name here of what the other end calls so. Raises ValueError when it may not."""
        parts = path.split("/")
        if {"", ".", ".."} & set(parts) or "\0" in path:
            raise ValueError(f"{path!r} would lead out of the target")
        if self.top is not None:
            return "/".join([self.top, *parts[1:]])
        if self.names and not any(matches(parts[0], each) for each in self.names):
            raise ValueError(f"{path!r} was not asked for")
        return path

    def grow(self, kind: bytes, payload: bytes) -> None:
        """More of the file that is being written; nothing of one that could not be."""
        size_bytes = HOLE.unpack(payload)[0] if kind == b"H" else len(payload)
        self.received_bytes += size_bytes
        if self.file is None:
            return
        with self.report_failures(self.file.path):
            if kind == b"B":
                write_all(self.file.descriptor, payload, self.file.reached)
            self.file.reached += size_bytes

    @contextlib.contextmanager
    def report_failures(self, path: str) -> Iterator[None]:
        """Tell what cannot be written; a full disk ends it all."""
        try:
            yield
        except OSError as error:
            self.refuse(path, write_failure(self.place, error), error.errno or 0)
            if error.errno in FULL:
                raise

    def refuse(self, path: str, why: str, number: int) -> None:
        """One name is not here, and why."""
        self.drop()
        self.failed += 1
        self.say(failed=path, why=why, errno=number)

    def take_directory(self, found: dict[str, Any]) -> None:
        """A directory; one that is there already stays as it is."""
        self.drop()
        parent, name = self.parent_of(found["name"])
        try:
            os.mkdir(name, 0o700, dir_fd=parent)
        except FileExistsError:
            os.close(os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=parent))
        else:
            self.made.append(NewDirectory(found["name"], found["mode"], found["mtime_ns"]))

    def take_link(self, found: dict[str, Any]) -> None:
        """A link, in place of whatever file was there."""
        self.drop()
        parent, name = self.parent_of(found["name"])
        temporary = new_partial_name()
        os.symlink(found["target"], temporary, dir_fd=parent)
        try:
            times = (found["mtime_ns"], found["mtime_ns"])
            os.utime(temporary, ns=times, dir_fd=parent, follow_symlinks=False)
            os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        except OSError:
            os.unlink(temporary, dir_fd=parent)
            raise
        self.files += 1

    def take_file(self, found: dict[str, Any]) -> None:
        """A file begins."""
        self.drop()
        self.file = PartialFile(*self.parent_of(found["name"]), found)

    def take_end_of_file(self, _found: dict[str, Any]) -> None:
        """The file is whole: it gets its mode, its time and its name."""
        file = self.file
        if file is None:
            return
        with self.report_failures(file.path):
            file.publish()
            self.file = None
            self.files += 1
            self.size_bytes += file.reached

    def take_end(self, _found: dict[str, Any]) -> None:
        """Directories get their modes and times now that nothing more is written into them."""
        for made in reversed(self.made):
            with self.report_failures(made.path):
                parent, name = self.parent_of(made.path)
                descriptor = os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=parent)
                try:
                    os.utime(descriptor, ns=(made.mtime_ns, made.mtime_ns))
                    os.fchmod(descriptor, made.mode)
                finally:
                    os.close(descriptor)
        self.is_over = True
        self.report_totals()

    def report_totals(self) -> None:
        """Tell how much is here."""
        self.say(copied=self.files, size_bytes=self.size_bytes, failures=self.failed)

    def parent_of(self, path: str) -> tuple[int, str]:
        """The open directory of a path, and its last name. Raises OSError."""
        above, _, name = path.rpartition("/")
        return self.enter(above), name

    def enter(self, path: str) -> int:
        """Open a directory below the root, by no link; the last one stays open for its files."""
        if path == self.parent_path:
            return self.parent
        descriptor = os.dup(self.root)
        for part in path.split("/") if path else ():
            try:
                below = os.open(part, FOLDER | os.O_NOFOLLOW, dir_fd=descriptor)
            finally:
                os.close(descriptor)
            descriptor = below
        os.close(self.parent)
        self.parent_path, self.parent = path, descriptor
        return descriptor

    def drop(self) -> None:
        """Leave nothing of a file that is not whole."""
        file, self.file = self.file, None
        if file is not None:
            file.discard()

    def close(self) -> None:
        """Whatever came of it."""
        self.drop()
        os.close(self.parent)
        os.close(self.root)


def target_of(orders: dict[str, Any]) -> tuple[str, str | None]:
    """The directory that is written below, and what a single copy is called instead of its name.

    As cp has it: into a directory that is there, else as that name. What is missing above it, or
    was to be a directory (`into`), is made. Raises OSError.
    """
    path = os.path.join(os.path.expanduser("~"), os.path.expanduser(orders["target"]))
    if orders["into"]:
        os.makedirs(path, exist_ok=True)
    if os.path.isdir(path):
        return path, None
    above, name = os.path.split(os.path.realpath(path))
    os.makedirs(above, exist_ok=True)
    return above, name


def matches(name: str, asked: str) -> bool:
    """A name is, or is one of, what was asked for."""
    return name == asked or fnmatch.fnmatchcase(name, asked)


def write_failure(place: str, error: OSError) -> str:
    """Why a name is not here, which is nothing that is wrong where it comes from."""
    return OBSTACLE_TEXTS.get(error.errno or 0) or f"cannot write to {place}: {reason(error)}"


def reason(error: OSError) -> str:
    """Why a name is not here."""
    return OBSTACLE_TEXTS.get(error.errno or 0) or (error.strerror or str(error)).lower()
