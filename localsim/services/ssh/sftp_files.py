"""What SFTP's requests do to a worker's files; on workers too, so it needs nothing installed."""

# ruff: noqa: PTH102, PTH104, PTH105, PTH106, PTH108, PTH111, PTH115, PTH116, PTH118, PTH208, PTH211
# SFTP's paths are bytes, which pathlib does not take.
import errno
import os
import struct
from collections.abc import Iterator, Sequence
from itertools import count, islice
from typing import NamedTuple

from localsim.services.ssh import sftp_packets as packets
from localsim.services.ssh.sftp_packets import PacketReader, Reply, ReplyType, StatusCode

MAX_PACKET = 256 * 1024
MAX_DATA = MAX_PACKET - 1024
MAX_HANDLES = 1000
_BATCH = 100
_READ, _WRITE, _APPEND, _CREATE, _TRUNCATE, _EXCLUSIVE = 1, 2, 4, 8, 16, 32
_ACCESS = {_READ: os.O_RDONLY, _WRITE: os.O_WRONLY, _READ | _WRITE: os.O_RDWR}
_FLAGS = {
    _APPEND: os.O_APPEND,
    _CREATE: os.O_CREAT,
    _TRUNCATE: os.O_TRUNC,
    _EXCLUSIVE: os.O_EXCL,
}


class _Open(NamedTuple):
    descriptor: int
    path: bytes
    appends: bool


class SftpFiles:
    """The files of a worker, as one client has them open.

    Each method carries out one kind of request. It returns the reply, or None where there is only
    to say that it is done, and raises OSError.
    """

    def __init__(self, fence: Sequence[bytes]) -> None:
        """`fence` has the directories in which files may change, all of them when it is empty."""
        self._fence = tuple(os.path.realpath(each) for each in fence)
        self._names = count(1)
        self._files: dict[bytes, _Open] = {}
        self._listings: dict[bytes, tuple[bytes, Iterator[bytes]]] = {}

    def open(self, request: PacketReader) -> Reply:
        """Open a file."""
        path, asked, named = request.path(), request.number(), request.attributes()
        flags = _ACCESS.get(asked & (_READ | _WRITE), os.O_RDONLY) | os.O_CLOEXEC
        flags |= sum(flag for bit, flag in _FLAGS.items() if asked & bit)
        if asked & ~_READ:
            path = self._target(path)
        (mode,) = named.get(os.chmod, (0o666,))
        handle = self._new_handle()
        self._files[handle] = _Open(os.open(path, flags, mode), path, bool(asked & _APPEND))
        return ReplyType.HANDLE, packets.pack_text(handle)

    def close(self, request: PacketReader) -> None:
        """Close a file or listing."""
        handle = request.text()
        if self._listings.pop(handle, None) is None:
            os.close(self._file(handle).descriptor)
            del self._files[handle]

    def read(self, request: PacketReader) -> Reply:
        """Read from a file."""
        file, offset, length = self._file(request.text()), request.long(), request.number()
        data = os.pread(file.descriptor, min(length, MAX_DATA), offset)
        return (
            (ReplyType.DATA, packets.pack_text(data))
            if data
            else packets.status_reply(StatusCode.EOF)
        )

    def write(self, request: PacketReader) -> None:
        """Write to a file."""
        file, offset = self._file(request.text()), request.long()
        rest = memoryview(request.text())
        while rest:
            if file.appends:
                written = os.write(file.descriptor, rest)
            else:
                written = os.pwrite(file.descriptor, rest, offset)
            offset += written
            rest = rest[written:]

    def stat(self, request: PacketReader) -> Reply:
        """A file's attributes, links followed."""
        return ReplyType.ATTRIBUTES, packets.pack_attributes(os.stat(request.path()))

    def lstat(self, request: PacketReader) -> Reply:
        """A file's attributes, a link's own."""
        return ReplyType.ATTRIBUTES, packets.pack_attributes(os.lstat(request.path()))

    def fstat(self, request: PacketReader) -> Reply:
        """An open file's attributes."""
        return ReplyType.ATTRIBUTES, packets.pack_attributes(
            os.fstat(self._file(request.text()).descriptor)
        )

    def setstat(self, request: PacketReader) -> None:
        """Change a file's attributes."""
        path = self._target(request.path())
        for change, arguments in request.attributes().items():
            change(path, *arguments)

    def lsetstat(self, request: PacketReader) -> None:
        """Change a file's attributes, a link's own."""
        path = self._entry(request.path())
        for change, arguments in request.attributes().items():
            if change not in os.supports_follow_symlinks:
                raise _refusal(errno.EOPNOTSUPP)
            change(path, *arguments, follow_symlinks=False)

    def fsetstat(self, request: PacketReader) -> None:
        """Change an open file's attributes."""
        file = self._file(request.text())
        self._target(file.path)  # the file system allows it a mere reader too
        for change, arguments in request.attributes().items():
            change(file.descriptor, *arguments)

    def opendir(self, request: PacketReader) -> Reply:
        """Begin to list a directory."""
        path = request.path()
        entries = [b".", b"..", *os.listdir(path)]
        handle = self._new_handle()
        self._listings[handle] = path, iter(entries)
        return ReplyType.HANDLE, packets.pack_text(handle)

    def readdir(self, request: PacketReader) -> Reply:
        """Go on listing."""
        if (found := self._listings.get(request.text())) is None:
            raise _refusal(errno.EBADF)
        path, entries = found
        rows = [row for name in islice(entries, _BATCH) for row in _row(path, name)]
        return packets.names_reply(*rows) if rows else packets.status_reply(StatusCode.EOF)

    def remove(self, request: PacketReader) -> None:
        """Remove a file or link."""
        os.unlink(self._entry(request.path()))

    def mkdir(self, request: PacketReader) -> None:
        """Make a directory."""
        path, named = self._entry(request.path()), request.attributes()
        os.mkdir(path, *named.get(os.chmod, (0o777,)))

    def rmdir(self, request: PacketReader) -> None:
        """Remove an empty directory."""
        os.rmdir(self._entry(request.path()))

    def realpath(self, request: PacketReader) -> Reply:
        """A path without links."""
        return packets.names_reply(_plain(os.path.realpath(request.path())))

    def expand(self, request: PacketReader) -> Reply:
        """A path that may begin with a user's home."""
        return packets.names_reply(_plain(os.path.realpath(os.path.expanduser(request.path()))))

    def rename(self, request: PacketReader) -> None:
        """Rename, unless the new name is taken."""
        old, new = self._entry(request.path()), self._entry(request.path())
        if os.path.lexists(new):
            raise _refusal(errno.EEXIST)
        os.rename(old, new)

    def replace(self, request: PacketReader) -> None:
        """Rename over what has the new name."""
        os.replace(self._entry(request.path()), self._entry(request.path()))

    def readlink(self, request: PacketReader) -> Reply:
        """Where a link points."""
        return packets.names_reply(_plain(os.readlink(request.path())))

    def symlink(self, request: PacketReader) -> None:
        """Make a link."""
        # OpenSSH's order. It may point anywhere, but nothing is written through it elsewhere.
        target, link = request.text(), request.path()
        os.symlink(target, self._entry(link))

    def link(self, request: PacketReader) -> None:
        """Make a hard link."""
        os.link(self._target(request.path()), self._entry(request.path()))

    def sync(self, request: PacketReader) -> None:
        """Wait until a file is on its disk."""
        os.fsync(self._file(request.text()).descriptor)

    def space(self, request: PacketReader) -> Reply:
        """How full a file system is."""
        return ReplyType.EXTENDED, packets.pack_file_system(os.statvfs(request.path()))

    def limits(self, _request: PacketReader) -> Reply:
        """What a client may ask at once."""
        return ReplyType.EXTENDED, struct.pack("!4Q", MAX_PACKET, MAX_DATA, MAX_DATA, MAX_HANDLES)

    def _new_handle(self) -> bytes:
        if len(self._files) + len(self._listings) >= MAX_HANDLES:
            raise _refusal(errno.EMFILE)
        return struct.pack("!I", next(self._names) & 0xFFFFFFFF)

    def _file(self, handle: bytes) -> _Open:
        if handle not in self._files:
            raise _refusal(errno.EBADF)
        return self._files[handle]

    def _target(self, path: bytes) -> bytes:
        """What a path names in the end, links followed; raises OSError."""
        return self._checked(os.path.realpath(path)) if self._fence else path

    def _entry(self, path: bytes) -> bytes:
        """The directory entry that a path names; raises OSError."""
        if not self._fence:
            return path
        parent, name = os.path.split(path.rstrip(b"/"))
        return self._checked(os.path.join(os.path.realpath(parent), name))

    def _checked(self, path: bytes) -> bytes:
        is_within = any(path == each or path.startswith(each + b"/") for each in self._fence)
        if not is_within or b".." in path.split(b"/"):
            raise OSError(errno.EACCES, f"{os.fsdecode(path)} is not on the worker's disk")
        return path


def _row(directory: bytes, name: bytes) -> Iterator[bytes]:
    """An entry of a listing, unless it has just gone."""
    try:
        attributes = os.lstat(os.path.join(directory, name))
    except OSError:
        return
    shown = packets.pack_listing_entry(name, attributes)
    yield packets.pack_text(name) + packets.pack_text(shown) + packets.pack_attributes(attributes)


def _plain(path: bytes) -> bytes:
    """A name without attributes."""
    return packets.pack_text(path) * 2 + struct.pack("!I", 0)


def _refusal(number: int) -> OSError:
    return OSError(number, os.strerror(number))
