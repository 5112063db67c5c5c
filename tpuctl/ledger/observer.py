"""The lasting random name under which this installation writes to ledgers."""

from __future__ import annotations

import re
import secrets
from pathlib import Path

from tpuctl import config
from tpuctl.errors import DamagedStateError, unreadable_error

FILE = "observer"
_ID = re.compile(r"[0-9a-f]{16}")


def observer_id(home: Path) -> str:
    """The observer of a TPUCTL_HOME, made when it is first asked for; its file is the owner's.

    Raises LocalIOError, and DamagedStateError for a file that holds something else.
    """
    path = home / FILE
    if not path.is_file():
        config.create_private(path, f"{secrets.token_hex(8)}\n".encode())
    try:
        found = path.read_text("ascii").strip()
    except OSError as error:
        raise unreadable_error(path, error) from error
    except UnicodeDecodeError:
        found = ""
    if not _ID.fullmatch(found):
        raise DamagedStateError(f"{path} does not hold an observer's id", hint=f"run: rm {path}")
    return found
