"""The user names of a worker: every one of them is its root, with a home of its own."""

import errno
import os

from localsim.workers.isolation.inside import tree

_PASSWD = "/etc/passwd"
_PUNCTUATION = {ord(character): None for character in "-._"}
_BASHRC = "PS1='$LOGNAME@\\h:\\w\\$ '\n"


def add(name: str) -> None:
    """Give a user a row and a home directory at the first login; raises OSError.

    The row comes after root's, so that `whoami` says root, which is what file modes and sudo tell
    programs as well; `~name` is the user's home, and LOGNAME and HOME say the user.
    """
    if not name.translate(_PUNCTUATION).isalnum():
        raise OSError(errno.EINVAL, f"no user can have the name {name!r}")
    home = f"/home/{name}"
    if not os.path.isdir(home):
        tree.directory(home)
        tree.write(f"{home}/.bashrc", _BASHRC)
    if _is_known(name):
        return
    descriptor = os.open(_PASSWD, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, f"{name}:x:0:0::{home}:/bin/bash\n".encode())
    finally:
        os.close(descriptor)


def _is_known(name: str) -> bool:
    descriptor = os.open(_PASSWD, os.O_RDONLY)
    try:
        rows = os.read(descriptor, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)
    return f"\n{name}:".encode() in b"\n" + rows
