"""SFTP version 3 on stdin and stdout, with OpenSSH's extensions: what sftp-server does on a VM.

It runs on a worker as a program of its own, so it needs nothing installed. Paths are relative to
the directory it starts in. Arguments are directories outside of which nothing is changed; without
any, the rights of its user decide.
"""

import errno
import os
import struct
import sys
from collections.abc import Callable, Sequence

from localsim.services.ssh.sftp_files import MAX_PACKET, SftpFiles
from localsim.services.ssh.sftp_packets import (
    BadPacketError,
    PacketReader,
    Reply,
    ReplyType,
    StatusCode,
    pack_text,
    status_reply,
)

VERSION = 3
_STDIN, _STDOUT = 0, 1
_INIT, _EXTENDED = 1, 200
_LONGEST = 4 * MAX_PACKET
"""More than clients are told that they may send; a longer packet ends the session."""
_CODES = {  # OpenSSH's
    errno.ENOENT: StatusCode.NO_SUCH_FILE,
    errno.ENOTDIR: StatusCode.NO_SUCH_FILE,
    errno.EBADF: StatusCode.NO_SUCH_FILE,
    errno.ELOOP: StatusCode.NO_SUCH_FILE,
    errno.EACCES: StatusCode.PERMISSION_DENIED,
    errno.EPERM: StatusCode.PERMISSION_DENIED,
    errno.EROFS: StatusCode.PERMISSION_DENIED,
    errno.ENOSYS: StatusCode.UNSUPPORTED,
    errno.EOPNOTSUPP: StatusCode.UNSUPPORTED,
}
_METHODS: dict[int, Callable[[SftpFiles, PacketReader], Reply | None]] = {
    3: SftpFiles.open,
    4: SftpFiles.close,
    5: SftpFiles.read,
    6: SftpFiles.write,
    7: SftpFiles.lstat,
    8: SftpFiles.fstat,
    9: SftpFiles.setstat,
    10: SftpFiles.fsetstat,
    11: SftpFiles.opendir,
    12: SftpFiles.readdir,
    13: SftpFiles.remove,
    14: SftpFiles.mkdir,
    15: SftpFiles.rmdir,
    16: SftpFiles.realpath,
    17: SftpFiles.stat,
    18: SftpFiles.rename,
    19: SftpFiles.readlink,
    20: SftpFiles.symlink,
}
_EXTENSIONS: dict[bytes, tuple[bytes, Callable[[SftpFiles, PacketReader], Reply | None]]] = {
    b"posix-rename@openssh.com": (b"1", SftpFiles.replace),
    b"hardlink@openssh.com": (b"1", SftpFiles.link),
    b"fsync@openssh.com": (b"1", SftpFiles.sync),
    b"lsetstat@openssh.com": (b"1", SftpFiles.lsetstat),
    b"statvfs@openssh.com": (b"2", SftpFiles.space),
    b"limits@openssh.com": (b"1", SftpFiles.limits),
    b"expand-path@openssh.com": (b"1", SftpFiles.expand),
}


def main(fence: Sequence[str]) -> None:
    """Serve one client until it ends; exits with 1 where it does not speak the protocol."""
    files = SftpFiles([os.fsencode(each) for each in fence])
    try:
        _serve(files)
    except (BadPacketError, BrokenPipeError):
        sys.exit(1)


def _serve(files: SftpFiles) -> None:
    while (data := _receive()) is not None:
        kind, request = data[0], PacketReader(data[1:])
        if kind == _INIT:
            names = (
                pack_text(name) + pack_text(version) for name, (version, _) in _EXTENSIONS.items()
            )
            _send(ReplyType.VERSION, struct.pack("!I", VERSION) + b"".join(names))
        else:
            identity = struct.pack("!I", request.number())
            answer, content = _answer(files, kind, request)
            _send(answer, identity + content)


def _answer(files: SftpFiles, kind: int, request: PacketReader) -> Reply:
    try:
        if kind == _EXTENDED:
            _, method = _EXTENSIONS[request.text()]
        else:
            method = _METHODS[kind]
        return method(files, request) or status_reply(StatusCode.OK)
    except KeyError:
        return status_reply(StatusCode.UNSUPPORTED, "not supported")
    except OSError as error:
        code = _CODES.get(error.errno or 0, StatusCode.FAILURE)
        return status_reply(code, error.strerror or str(error))
    except (BadPacketError, ValueError, OverflowError):
        return status_reply(StatusCode.BAD_MESSAGE, "bad message")


def _receive() -> bytes | None:
    """The next packet, None at the end."""
    head = _read(4)
    if head is None:
        return None
    (length,) = struct.unpack("!I", head)
    if not 1 <= length <= _LONGEST:
        raise BadPacketError
    return _read(length)


def _read(count: int) -> bytes | None:
    parts = []
    while count:
        part = os.read(_STDIN, count)
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _send(kind: int, content: bytes) -> None:
    rest = memoryview(struct.pack("!IB", 1 + len(content), kind) + content)
    while rest:
        rest = rest[os.write(_STDOUT, rest) :]
