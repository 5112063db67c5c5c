"""The sending half of the file stream: files, directories and links as frames.

A frame is a letter, the length of what follows in four bytes, and that: JSON, or bytes.

    T  {files, size_bytes}          what is coming
    D  {path, mode, mtime_ns}       a directory, before all that is in it
    L  {path, target, mtime_ns}     a symbolic link
    F  {path, mode, mtime_ns, offset}   a file begins; what is before the offset is there
    B  bytes                        the next bytes of it
    H  a count, in eight bytes      a hole of that many bytes
    E  {sha256}                     it ends there
    X  {path, why, errno}           it cannot be read (any more)
    .                               nothing yet, but somebody is there
    Z                               the end of the stream

The SHA-256 is that of the whole file when it was known before (the receiver has hashed what is
before the offset); else that of the payloads of its frames, so that no hole costs time.

Imported here, and shipped to workers: bytes of a name that are not UTF-8 travel as the surrogates
that Python makes of them. Standard library only, Python 3.8.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import os
import stat
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tpuctl.agent.data.target_tree import PARTIAL_PREFIX, home_path

BLOCK_BYTES = 256 * 1024
HEAD = struct.Struct(">cI")
HOLE = struct.Struct(">Q")
TOTALS, DIRECTORY, LINK, FILE, BYTES, SKIP, END_OF_FILE, FAILED, KEEPALIVE, END = (
    b"T", b"D", b"L", b"F", b"B", b"H", b"E", b"X", b".", b"Z",
)  # fmt: skip
ERRNO_TEXTS = {
    errno.ENOENT: "no such file or directory",
    errno.EISDIR: "it is a directory: copy it with -r",
    errno.EINVAL: "it is neither a file, a directory nor a link",
}
KEEPALIVE_NAMES = 2000
"""Names that are looked at between two signs of life."""


class PackEntry(NamedTuple):
    """Something to send: `source` is where it is here, `path` what it is called there."""

    kind: bytes
    source: str
    path: str
    mode: int = 0
    mtime_ns: int = 0
    size_bytes: int = 0
    errno: int = 0
    sha256: str = ""
    """The content's, when it is known before: then so many bytes of it are sent, and no holes."""
    offset: int = 0
    """What is before is at the other end already."""


class StreamPiece(NamedTuple):
    """A part of the stream, and how much of the files is in it."""

    data: bytes
    size_bytes: int = 0
    files: int = 0


def frame(kind: bytes, payload: bytes = b"", **fields: Any) -> bytes:
    """Encode a frame of these bytes, or of these fields as JSON."""
    if fields:
        payload = json.dumps(fields).encode("ascii")
    return HEAD.pack(kind, len(payload)) + payload


def name_of(path: str) -> str:
    """What a copy is called; empty for a path whose contents are copied, such as `dir/.`."""
    name = path.rstrip("/").rpartition("/")[2]
    return "" if name in (".", "..") else name


def entries(source: str, *, recursive: bool) -> Iterator[PackEntry]:
    """What is sent of a source: what it leads to, and all below that when it is a directory."""
    name = name_of(source)
    try:
        found = os.stat(source)
    except OSError as error:
        yield PackEntry(FAILED, source, name or source, errno=error.errno or 0)
        return
    entry = entry_of(os.path.realpath(source), name, found)
    if entry.kind != DIRECTORY:
        yield entry
        return
    if not recursive:
        yield PackEntry(FAILED, source, name or source, errno=errno.EISDIR)
        return
    if name:
        yield entry
    yield from entries_below(entry.source, name)


def entries_below(source: str, name: str) -> Iterator[PackEntry]:
    """Yield an entry for all that a directory holds; paths begin with `name`, links stay links."""
    waiting = [(source, name)]
    while waiting:
        directory, path = waiting.pop()
        try:
            with os.scandir(directory) as scanned:
                found = sorted(scanned, key=lambda each: each.name)
        except OSError as error:
            yield PackEntry(FAILED, directory, path or directory, errno=error.errno or 0)
            continue
        for each in found:
            if each.name.startswith(PARTIAL_PREFIX):
                continue
            entry = directory_entry(each, f"{path}/{each.name}" if path else each.name)
            yield entry
            if entry.kind == DIRECTORY:
                waiting.append((entry.source, entry.path))


def directory_entry(found: os.DirEntry[str], path: str) -> PackEntry:
    """The entry of what a directory holds under that path, or why it cannot be read."""
    try:
        return entry_of(found.path, path, found.stat(follow_symlinks=False))
    except OSError as error:
        return PackEntry(FAILED, found.path, path, errno=error.errno or 0)


def entry_of(source: str, path: str, found: os.stat_result) -> PackEntry:
    """The entry of a file, directory or link; that of anything else is FAILED."""
    kinds = {stat.S_IFREG: FILE, stat.S_IFDIR: DIRECTORY, stat.S_IFLNK: LINK}
    kind = kinds.get(stat.S_IFMT(found.st_mode), FAILED)
    size_bytes = found.st_size if kind == FILE else 0
    mode = stat.S_IMODE(found.st_mode) & 0o777
    code = errno.EINVAL if kind == FAILED else 0
    return PackEntry(kind, source, path, mode, found.st_mtime_ns, size_bytes, code)


def frames(
    found: Iterable[PackEntry], is_refused: Callable[[str], bool] = lambda _path: False
) -> Iterator[StreamPiece]:
    """The stream of these entries, to its end; a file that is refused meanwhile is not read on."""
    for each in found:
        if each.kind == FILE:
            yield from file_frames(each, is_refused)
        elif each.kind == LINK:
            yield link_frame(each)
        elif each.kind == DIRECTORY:
            directory = frame(DIRECTORY, path=each.path, mode=each.mode, mtime_ns=each.mtime_ns)
            yield StreamPiece(directory)
        else:
            yield failure(each, each.errno)
    yield StreamPiece(frame(END))


def link_frame(entry: PackEntry) -> StreamPiece:
    """The frame of a symbolic link."""
    try:
        target = os.readlink(entry.source)
    except OSError as error:
        return failure(entry, error.errno)
    link = frame(LINK, path=entry.path, target=target, mtime_ns=entry.mtime_ns)
    return StreamPiece(link, files=1)


def file_frames(entry: PackEntry, is_refused: Callable[[str], bool]) -> Iterator[StreamPiece]:
    """The frames of a file, as long as when it was opened, or shorter when it was cut meanwhile."""
    digest = hashlib.sha256()
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(entry.source, flags), "rb", buffering=0) as file:
            begun = frame(
                FILE, path=entry.path, mode=entry.mode, mtime_ns=entry.mtime_ns, offset=entry.offset
            )
            yield StreamPiece(begun)
            for piece in contents(file.fileno(), entry):
                if is_refused(entry.path):
                    break
                if not entry.sha256:
                    digest.update(memoryview(piece.data)[HEAD.size :])
                yield piece
    except OSError as error:
        yield failure(entry, error.errno)
    else:
        sha256 = entry.sha256 or digest.hexdigest()
        yield StreamPiece(frame(END_OF_FILE, sha256=sha256), files=1)


def contents(descriptor: int, entry: PackEntry) -> Iterator[StreamPiece]:
    """The bytes of a file from the entry's offset on, and its holes."""
    found = os.fstat(descriptor)
    is_sparse = not entry.sha256 and found.st_blocks * 512 < found.st_size
    # What the kernel makes up, as in /proc, has no size but an end.
    size_bytes = entry.size_bytes if entry.sha256 else found.st_size or sys.maxsize
    reached = entry.offset
    for start, end in extents(descriptor, size_bytes) if is_sparse else ((reached, size_bytes),):
        if start > reached:
            yield hole(start - reached)
        reached = start
        while reached < end:
            block = os.pread(descriptor, min(BLOCK_BYTES, end - reached), reached)
            if not block:
                return
            yield StreamPiece(frame(BYTES, block), size_bytes=len(block))
            reached += len(block)
    if reached < size_bytes:
        yield hole(size_bytes - reached)


def hole(size_bytes: int) -> StreamPiece:
    """The frame of a hole: zeros that no disk holds."""
    return StreamPiece(frame(SKIP, HOLE.pack(size_bytes)), size_bytes=size_bytes)


def extents(descriptor: int, size_bytes: int) -> Iterator[tuple[int, int]]:
    """The (start, end) ranges of a sparse file that are not holes. Raises OSError."""
    reached = 0
    while reached < size_bytes:
        try:
            start = os.lseek(descriptor, reached, os.SEEK_DATA)
            reached = min(os.lseek(descriptor, start, os.SEEK_HOLE), size_bytes)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return  # nothing but a hole from here on
            raise
        yield start, reached


def failure(entry: PackEntry, number: int | None) -> StreamPiece:
    """The frame that says why an entry cannot be sent, or not to its end; `number` is an errno."""
    number = number or 0
    why = ERRNO_TEXTS.get(number) or f"cannot read: {os.strerror(number).lower()}"
    return StreamPiece(frame(FAILED, path=entry.path, why=why, errno=number))


def chunks(pieces: Iterable[StreamPiece]) -> Iterator[StreamPiece]:
    """The same stream in parts of at least BLOCK_BYTES, for fewer writes."""
    data, size_bytes, files = bytearray(), 0, 0
    for each in pieces:
        data += each.data
        size_bytes += each.size_bytes
        files += each.files
        if len(data) >= BLOCK_BYTES:
            yield StreamPiece(bytes(data), size_bytes, files)
            data, size_bytes, files = bytearray(), 0, 0
    yield StreamPiece(bytes(data), size_bytes, files)


def matching_paths(source: str) -> list[str]:
    """The paths on this worker, from HOME, that an argument names or matches as a pattern."""
    path = home_path(source)
    if os.path.lexists(path) or not glob.has_magic(path):
        return [path]
    return sorted(glob.glob(path)) or [path]


def ordered_entries(orders: Mapping[str, Any], write: Any) -> Iterator[PackEntry]:
    """All below the `sources` of the orders, or its `files`: (path below `root`, fields) rows."""
    root = os.path.realpath(home_path(orders.get("root", "")))
    for below, fields in orders.get("files", ()):
        yield PackEntry(FILE, os.path.join(root, below) if below else root, **fields)
    count = 0
    for source in orders.get("sources", ()):
        for path in matching_paths(source):
            for entry in entries(path, recursive=orders["recursive"]):
                is_itself = entry.kind == FAILED and entry.source == path
                yield entry._replace(path=source) if is_itself else entry
                count += 1
                if count % KEEPALIVE_NAMES == 0:
                    write(frame(KEEPALIVE))


def totals(found: Iterable[PackEntry]) -> tuple[int, int]:
    """How many files and links are in a stream, and how many bytes."""
    files = [each for each in found if each.kind in (FILE, LINK)]
    return len(files), sum(each.size_bytes - each.offset for each in files)


def send(orders: Mapping[str, Any]) -> int:
    """Write what the orders name to standard output."""
    with os.fdopen(1, "wb", closefd=False) as out:
        found = list(ordered_entries(orders, out.write))
        files, size_bytes = totals(found)
        out.write(frame(TOTALS, files=files, size_bytes=size_bytes))
        for piece in chunks(frames(found)):
            out.write(piece.data)
    return 0


def main() -> int:
    """Carry out the orders that are the last argument, as JSON."""
    return send(json.loads(sys.argv[1]))
