"""Packets of SFTP version 3, read and written; on workers too, so it needs nothing installed."""

import os
import stat
import struct
import time
from collections.abc import Callable
from enum import IntEnum
from typing import Any

Reply = tuple[int, bytes]
"""A packet's type, and what follows the number of the request."""
Changes = dict[Callable[..., None], tuple[Any, ...]]
"""The calls that give a file its attributes, and their arguments after the file."""
SIZE, OWNER, MODE, TIMES, EXTENDED = 1, 2, 4, 8, 1 << 31


class ReplyType(IntEnum):
    """The type of a reply."""

    VERSION = 2
    STATUS = 101
    HANDLE = 102
    DATA = 103
    NAMES = 104
    ATTRIBUTES = 105
    EXTENDED = 201


class StatusCode(IntEnum):
    """The status of a request."""

    OK = 0
    EOF = 1
    NO_SUCH_FILE = 2
    PERMISSION_DENIED = 3
    FAILURE = 4
    BAD_MESSAGE = 5
    UNSUPPORTED = 8


class BadPacketError(Exception):
    """The client does not speak this protocol."""


class PacketReader:
    """Reads the fields of a request one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, form: str = "!I") -> int:
        """The next number, of four bytes unless told; raises BadPacketError."""
        (value,) = struct.unpack(form, self._take(struct.calcsize(form)))
        return int(value)

    def long(self) -> int:
        """The next number of eight bytes; raises BadPacketError."""
        return self.number("!Q")

    def text(self) -> bytes:
        """The next string; raises BadPacketError."""
        return self._take(self.number())

    def path(self) -> bytes:
        """The next string as a path: nothing means here."""
        return self.text() or b"."

    def attributes(self) -> Changes:
        """The next attributes, as the calls that give them to a file; raises BadPacketError."""
        flags = self.number()
        size = self.long() if flags & SIZE else None
        owner = (self.number(), self.number()) if flags & OWNER else None
        mode = self.number() if flags & MODE else None
        times = (self.number(), self.number()) if flags & TIMES else None
        if flags & EXTENDED:
            for _ in range(self.number()):
                self.text(), self.text()
        calls: dict[Callable[..., None], tuple[Any, ...] | None] = {
            os.truncate: None if size is None else (size,),
            os.chmod: None if mode is None else (stat.S_IMODE(mode),),
            os.utime: None if times is None else (times,),
            os.chown: owner,
        }
        return {call: arguments for call, arguments in calls.items() if arguments is not None}

    def _take(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._data):
            raise BadPacketError
        taken = self._data[self._at : end]
        self._at = end
        return taken


def pack_text(value: bytes) -> bytes:
    """A string."""
    return struct.pack("!I", len(value)) + value


def status_reply(code: StatusCode, message: str = "") -> Reply:
    """A status, with a text for people."""
    return ReplyType.STATUS, struct.pack("!I", code) + pack_text(message.encode()) + pack_text(b"")


def names_reply(*rows: bytes) -> Reply:
    """A reply of names with their attributes."""
    return ReplyType.NAMES, struct.pack("!I", len(rows)) + b"".join(rows)


def pack_attributes(found: os.stat_result) -> bytes:
    """The attributes of a file, as SFTP packs them."""
    flags = SIZE | OWNER | MODE | TIMES
    numbers = (found.st_uid, found.st_gid, found.st_mode, int(found.st_atime), int(found.st_mtime))
    return struct.pack("!IQ", flags, found.st_size) + struct.pack(
        "!IIIII", *(number & 0xFFFFFFFF for number in numbers)
    )


def pack_listing_entry(name: bytes, found: os.stat_result) -> bytes:
    """A file as `ls -l` shows it, for people."""
    when = time.strftime("%b %d %H:%M %Y", time.localtime(found.st_mtime))
    line = (
        f"{stat.filemode(found.st_mode)} {found.st_nlink:4} {found.st_uid:8} {found.st_gid:8}"
        f" {found.st_size:12} {when} "
    )
    return line.encode() + name


def pack_file_system(found: os.statvfs_result) -> bytes:
    """A file system, as statvfs@openssh.com."""
    blocks = (found.f_bsize, found.f_frsize, found.f_blocks, found.f_bfree, found.f_bavail)
    files = (found.f_files, found.f_ffree, found.f_favail, found.f_fsid, found.f_flag)
    return struct.pack("!11Q", *blocks, *files, found.f_namemax)
