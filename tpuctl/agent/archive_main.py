"""The entry of the archive that `data` ships to a worker: modules of the agent and a manifest.

Run as `python3 ARCHIVE`. The archive is removed at once: everything of it is read by then.
Standard library only, Python 3.8.
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tpuctl.agent.copy import packing, partial_file, receiving
from tpuctl.agent.data import crc32c, fetcher, target_tree
from tpuctl.agent.data.report import print_event

BLOCK_BYTES = 1024 * 1024


def list_files(manifest: Mapping[str, Any]) -> int:
    """Say path, size, checksum and mode of every regular file below the `root` of the manifest.

    Returns 1 when there is nothing at the path, or something that cannot be read.
    """
    root = Path(target_tree.home_path(manifest["root"]))
    if not root.exists():
        print_event(absent=True)
        return 1
    checksum = {"crc32c": crc32c_of, "sha256": sha256_of}[manifest["checksum"]]
    try:
        for name, path in target_tree.walk(root):
            found = path.stat()
            print_event(file=[name, found.st_size, checksum(path), found.st_mode & 0o777])
    except OSError as error:
        print_event(unreadable=str(error.filename), why=str(error.strerror))
        return 1
    print_event(listed=True)
    return 0


def crc32c_of(path: Path) -> str:
    """The CRC-32C of a file as Cloud Storage spells it. Raises OSError."""
    value = 0
    with path.open("rb") as file:
        for block in iter(lambda: file.read(BLOCK_BYTES), b""):
            value = crc32c.extend(value, block)
    return crc32c.encode(value)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal. Raises OSError."""
    with path.open("rb") as file:
        digest: str = partial_file.digest_of(file, sys.maxsize).hexdigest()
    return digest


VERBS = {
    "fetch": fetcher.fetch,
    "list": list_files,
    "receive": receiving.receive,
    "send": packing.send,
}


def main(archive: str) -> int:
    """Do what the manifest says."""
    with zipfile.ZipFile(archive) as shipped:
        manifest = json.loads(shipped.read("manifest.json").decode("utf-8"))
    Path(archive).unlink()
    try:
        return VERBS[manifest["verb"]](manifest)
    except (OSError, target_tree.RefusedNameError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    sys.exit(main(sys.argv[0]))
