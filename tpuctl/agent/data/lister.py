"""Names, sizes and checksums of the files below a path of this worker, as JSON lines.

Standard library only, Python 3.8.
"""

from __future__ import annotations

import hashlib

from tpuctl.agent.data import crc32c, tree
from tpuctl.agent.data.report import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

BLOCK_BYTES = 1024 * 1024


def listed(manifest: Mapping[str, Any]) -> int:
    """One line for every regular file; 1 when there is nothing at the path."""
    root = tree.at_home(manifest["root"])
    if not root.exists():
        say(absent=True)
        return 1
    hashed = {"crc32c": crc32c_of, "sha256": sha256_of}[manifest["checksum"]]
    try:
        for name, path in tree.walk(root):
            found = path.stat()
            say(file=[name, found.st_size, hashed(path), found.st_mode & 0o777])
    except OSError as error:
        say(unreadable=str(error.filename), why=str(error.strerror))
        return 1
    say(listed=True)
    return 0


def crc32c_of(path: Path) -> str:
    """The checksum of a file as Cloud Storage spells it."""
    value = 0
    with path.open("rb") as file:
        for block in iter(lambda: file.read(BLOCK_BYTES), b""):
            value = crc32c.extend(value, block)
    return crc32c.encoded(value)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    total = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(BLOCK_BYTES), b""):
            total.update(block)
    return total.hexdigest()
