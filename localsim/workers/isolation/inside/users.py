"""The user names of a worker: every one of them is its root, with a home of its own."""

import errno
import os

from localsim.workers.isolation.inside import tree

_PASSWD = "/etc/passwd"
_PUNCTUATION = {ord(character): None for character in "-._"}
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_BASHRC = "PS1='$LOGNAME@\\h:\\w\\$ '\n"


def add(name: str) -> None:
    """Give a user a row and a home directory at the first login; raises OSError.

    The row comes after root's, so that `whoami` says root, which is what file modes and sudo tell
    programs as well; `~name` is the user's home, and LOGNAME and HOME say the user. What a full
    disk does not take is left for a later login: one can always log in and clean up.
    """
    if not name.translate(_PUNCTUATION).isalnum():
        raise OSError(errno.EINVAL, f"no user can have the name {name!r}")
    try:
        _add(name, f"/home/{name}")
    except OSError as error:
        if error.errno not in _FULL:
            raise


def _add(name: str, home: str) -> None:
    is_known = _is_known(name)
    if not is_known or not os.path.isdir(home):
        tree.make_directory(home)
        tree.write(f"{home}/.bashrc", _BASHRC)
    if is_known:
        return
    with open(_PASSWD, "ab", buffering=0) as rows:
        rows.write(f"{name}:x:0:0::{home}:/bin/bash\n".encode())


def _is_known(name: str) -> bool:
    with open(_PASSWD, "rb") as rows:
        return f"\n{name}:".encode() in b"\n" + rows.read()
