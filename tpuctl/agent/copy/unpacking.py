"""The receiving half of the file stream: writes what comes in the frames of `packing`.

No name leads out of the target or through a link. Imported here, and shipped to workers with
`receiving`. Standard library only, Python 3.8.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from tpuctl.agent.copy import packing, partial_file
from tpuctl.agent.data import target_tree

LARGEST_FRAME_BYTES = 1024 * 1024
FULL = (errno.ENOSPC, errno.EDQUOT)
OBSTACLE_TEXTS = {
    errno.ELOOP: "a symbolic link stands in the way",
    errno.ENOTDIR: "a file or a link stands in the way",
    errno.EISDIR: "a directory stands in the way",
    errno.ENOTEMPTY: "a directory stands in the way",
    errno.EEXIST: "a file or a link stands in the way",
}


class FrameBuffer:
    """Bytes of a stream that come in pieces, cut into its frames."""

    def __init__(self) -> None:
        self.rest = bytearray()

    def frames(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Kind and payload of every frame that these bytes complete. Raises ValueError."""
        self.rest += data
        at = 0
        while len(self.rest) - at >= packing.HEAD.size:
            kind, length = packing.HEAD.unpack_from(self.rest, at)
            if length > LARGEST_FRAME_BYTES:
                raise ValueError(f"a frame of {length} bytes")
            end = at + packing.HEAD.size + length
            if end > len(self.rest):
                break
            yield kind, bytes(self.rest[at + packing.HEAD.size : end])
            at = end
        del self.rest[:at]


class Unpacker:
    """Writes a stream below a directory; `say` hears of every failure and of the end.

    The orders are `target`, `into` (it is a directory), `names` (nothing else, unless empty), and
    perhaps `files`: WantedFile rows; then no other file is taken, and each can be resumed.
    """

    def __init__(
        self, orders: Mapping[str, Any], say: Callable[..., None], lock_s: float = 0.0
    ) -> None:
        """Raises OSError. `lock_s`: how long to wait for another process that writes a file."""
        self.say, self.lock_s = say, lock_s
        self.files = self.size_bytes = self.failed = 0
        self.coming: dict[str, int] = {}
        self.is_over = False
        self.received_bytes = 0
        self.place, self.top = target_of(orders)
        self.names = orders["names"]
        rows = orders.get("files")
        self.files_asked = None if rows is None else [partial_file.WantedFile(*row) for row in rows]
        self.wanted: dict[str, partial_file.WantedFile] = {}
        self.root = os.open(self.place, target_tree.DIRECTORY)
        self.made: list[dict[str, Any]] = []
        """Frames of directories that were not there: modes and times are set once all is in."""
        self.finished: dict[str, set[str]] = {}
        self.buffer = FrameBuffer()
        self.parent_path, self.parent = "", os.dup(self.root)
        self.file: partial_file.PartialFile | None = None
        self.takers: dict[bytes, Callable[[Any], None]] = {
            packing.TOTALS: self.coming.update,
            packing.DIRECTORY: self.take_directory,
            packing.LINK: self.take_link,
            packing.FILE: self.take_file,
            packing.END_OF_FILE: self.take_end_of_file,
            packing.FAILED: lambda found: self.refuse(found["path"], found["why"], found["errno"]),
            packing.END: self.take_end,
        }

    def missing(self) -> list[tuple[int, int]]:
        """(index, offset) of each file of the orders that is not here; tells the refused ones."""
        assert self.files_asked is not None
        refused = target_tree.refusals(file.path for file in self.files_asked)
        found = []
        for index, file in enumerate(self.files_asked):
            with self.report_failures(file.path):
                if file.path in refused:
                    raise target_tree.RefusedNameError(refused[file.path])
                offset = partial_file.missing_offset(*self.parent_of(file.path), file)
                if offset is not None:
                    found.append((index, offset))
                    self.wanted[file.path] = file
        return found

    def feed(self, data: bytes) -> None:
        """Write the next bytes of the stream. Raises ValueError; OSError when the disk is full."""
        for kind, payload in self.buffer.frames(data):
            self.take(kind, payload)

    def take(self, kind: bytes, payload: bytes) -> None:
        """Carry out one frame; what cannot be written is reported, and the rest goes on."""
        if kind in (packing.BYTES, packing.SKIP):
            self.grow(kind, payload)
            return
        if kind == packing.KEEPALIVE:
            return
        found = json.loads(payload) if payload else {}
        if kind not in self.takers:
            raise ValueError(f"a frame {kind!r}")
        if "path" in found and kind != packing.FAILED:
            is_wanted = kind == packing.FILE and found["path"] in self.wanted
            if self.files_asked is not None and not is_wanted:
                raise ValueError(f"{found['path']!r} was not asked for")
            found["name"] = self.called(found["path"])
        with self.report_failures(found.get("path", "")):
            self.takers[kind](found)

    def called(self, path: str) -> str:
        """The name here of a path of the stream. Raises ValueError when it leaves the target."""
        parts = path.split("/")
        if {"", ".", ".."} & set(parts) or "\0" in path:
            raise ValueError(f"{path!r} would lead out of the target")
        if self.top is not None:
            return "/".join([self.top, *parts[1:]])
        top = parts[0]
        if self.names and not any(top == name or fnmatchcase(top, name) for name in self.names):
            raise ValueError(f"{path!r} was not asked for")
        return path

    def grow(self, kind: bytes, payload: bytes) -> None:
        """Add bytes or a hole to the file that is being written, unless it was refused."""
        size_bytes = packing.HOLE.unpack(payload)[0] if kind == packing.SKIP else len(payload)
        self.received_bytes += size_bytes
        if self.file is None:
            return
        with self.report_failures(self.file.path):
            if kind == packing.SKIP:
                self.file.skip(payload, size_bytes)
            else:
                self.file.write(payload)

    @contextlib.contextmanager
    def report_failures(self, path: str) -> Iterator[None]:
        """Report what cannot be written and go on. Raises OSError when the disk is full."""
        try:
            yield
        except target_tree.RefusedNameError as error:
            self.refuse(path, str(error), 0)
        except OSError as error:
            self.refuse(path, write_failure(self.place, error), error.errno or 0)
            if error.errno in FULL:
                raise

    def refuse(self, path: str, why: str, number: int) -> None:
        """Give up the file of that path and report why; `number` is an errno, or 0."""
        self.drop()
        self.failed += 1
        self.say(failed=path, why=why, errno=number)

    def take_directory(self, found: dict[str, Any]) -> None:
        """Make a directory; one that is there already stays as it is."""
        self.drop()
        parent, name = self.parent_of(found["name"])
        try:
            os.mkdir(name, 0o700, dir_fd=parent)
        except FileExistsError:
            flags = target_tree.DIRECTORY | os.O_NOFOLLOW
            os.close(os.open(name, flags, dir_fd=parent))
        else:
            self.made.append(found)

    def take_link(self, found: dict[str, Any]) -> None:
        """Make a link, in place of whatever file was there."""
        self.drop()
        parent, name = self.parent_of(found["name"])
        temporary = partial_file.new_partial_name()
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
        """Begin a file under its temporary name."""
        self.drop()
        parent, name = self.parent_of(found["name"])
        wanted = self.wanted.get(found["path"])
        if wanted is None:
            self.file = partial_file.PartialFile(parent, name, found)
        else:
            self.file = partial_file.ResumableFile(parent, name, found, wanted, self.lock_s)

    def take_end_of_file(self, found: dict[str, Any]) -> None:
        """Verify the file that is whole, and give it its mode and its name."""
        file = self.file
        if file is None:
            return
        with self.report_failures(file.path):
            file.publish(found["sha256"])
            self.file = None
            self.files += 1
            self.size_bytes += file.reached
            if file.path in self.wanted:
                families = self.finished.setdefault(self.parent_path, set())
                families.add(target_tree.unfinished_prefix(file.name))

    def take_end(self, _found: dict[str, Any]) -> None:
        """Set modes and times of new directories, now that nothing more is written into them."""
        for made in reversed(self.made):
            with self.report_failures(made["name"]):
                parent, name = self.parent_of(made["name"])
                flags = target_tree.DIRECTORY | os.O_NOFOLLOW
                descriptor = os.open(name, flags, dir_fd=parent)
                try:
                    os.utime(descriptor, ns=(made["mtime_ns"], made["mtime_ns"]))
                    os.fchmod(descriptor, made["mode"])
                finally:
                    os.close(descriptor)
        for directory, families in self.finished.items():
            with self.report_failures(directory):
                descriptor = self.enter(directory)
                os.fsync(descriptor)
                target_tree.sweep(descriptor, families)
        self.is_over = True
        self.report_totals()

    def report_totals(self) -> None:
        """Report how many files and bytes are here, and how many failed."""
        self.say(copied=self.files, size_bytes=self.size_bytes, failures=self.failed)

    def parent_of(self, path: str) -> tuple[int, str]:
        """The open directory of a path, and its last name. Raises Refused, OSError."""
        above, _, name = path.rpartition("/")
        return self.enter(above), name

    def enter(self, path: str) -> int:
        """Open a directory below the root, by no link, and keep it open for its next file.

        What is missing on the way is made. Raises Refused, OSError.
        """
        if path == self.parent_path:
            return self.parent
        descriptor = target_tree.open_below(self.root, path)
        os.close(self.parent)
        self.parent_path, self.parent = path, descriptor
        return descriptor

    def drop(self) -> None:
        """Give up a file that is not whole."""
        file, self.file = self.file, None
        if file is not None:
            file.abandon()

    def close(self) -> None:
        """Give up what is not whole, and close all descriptors."""
        self.drop()
        os.close(self.parent)
        os.close(self.root)


def target_of(orders: Mapping[str, Any]) -> tuple[str, str | None]:
    """The directory that is written below, and what a single copy is called instead of its name.

    As cp has it: into a directory that is there, else as that name. What is missing above it, or
    was to be a directory (`into`), is made. Raises OSError.
    """
    path = target_tree.home_path(orders["target"])
    if orders["into"]:
        os.makedirs(path, exist_ok=True)
    if os.path.isdir(path):
        return path, None
    above, name = os.path.split(os.path.realpath(path))
    os.makedirs(above, exist_ok=True)
    return above, name


def write_failure(place: str, error: OSError) -> str:
    """The text of an error of the target, not of the source."""
    return OBSTACLE_TEXTS.get(error.errno or 0) or f"cannot write to {place}: {reason(error)}"


def reason(error: OSError) -> str:
    """The text of an error, without the path."""
    return OBSTACLE_TEXTS.get(error.errno or 0) or (error.strerror or str(error)).lower()
