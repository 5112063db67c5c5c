"""Names, sizes and checksums of the files below a path of this worker, as JSON lines.

Standard library only, Python 3.8.
"""

from __future__ import annotations

import hashlib

from tpuctl.agent.data import crc32c, target_tree
from tpuctl.agent.data.report import print_event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

BLOCK_BYTES = 1024 * 1024


def list_files(manifest: Mapping[str, Any]) -> int:
    """One line for every regular file; 1 when there is nothing at the path."""
    root = target_tree.home_path(manifest["root"])
    if not root.exists():
        print_event(absent=True)
        return 1
    hashed = {"crc32c": crc32c_of, "sha256": sha256_of}[manifest["checksum"]]
    try:
        for name, path in target_tree.walk(root):
            found = path.stat()
            print_event(file=[name, found.st_size, hashed(path), found.st_mode & 0o777])
    except OSError as error:
        print_event(unreadable=str(error.filename), why=str(error.strerror))
        return 1
    print_event(listed=True)
    return 0


def crc32c_of(path: Path) -> str:
    """The checksum of a file as Cloud Storage spells it."""
    value = 0
    with path.open("rb") as file:
        for block in iter(lambda: file.read(BLOCK_BYTES), b""):
            value = crc32c.extend(value, block)
    return crc32c.encode(value)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    total = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(BLOCK_BYTES), b""):
            total.update(block)
    return total.hexdigest()
