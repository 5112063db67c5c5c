"""The stage `fetch`: the workdir, verified and unpacked. Python 3.8."""

from __future__ import annotations

import os
import sys
import time

from tpuctl.agent.job.objects import DeniedError, ObjectClient
from tpuctl.agent.job.state import rundir
from tpuctl.retry_after import pause_asked_by

TRIES = 16
"""Two minutes."""
BLOCK_BYTES = 256 * 1024


def fetch(directory: str) -> int:
    """Download the workdir, verify its SHA-256, and unpack it into DIR/workdir; the exit code."""
    config = rundir.config(directory)
    archive = os.path.join(directory, "workdir.tar.gz")
    objects = ObjectClient(config["endpoint"], config["bucket"])
    if status := download(objects, config["workdir"], archive):
        return status
    if digest(archive) != config["workdir_sha256"]:
        sys.stderr.write("tpuctl: the workdir is not what was submitted\n")
        return rundir.EXCHANGED
    try:
        unpack(archive, os.path.join(directory, "workdir"))
    except (OSError, ValueError) as error:
        sys.stderr.write(f"tpuctl: cannot unpack the workdir: {error}\n")
        return 1
    os.unlink(archive)
    return 0


def download(objects: ObjectClient, key: str, path: str) -> int:
    """Download an object, TRIES times; return 0, 1 when refused, 75 when nothing answers."""
    for attempt in range(TRIES):
        try:
            objects.download(key, path)
            return 0
        except OSError as error:
            sys.stderr.write(f"tpuctl: cannot fetch the workdir: {error}\n")
            if isinstance(error, DeniedError):
                return 1
            asked_s = pause_asked_by(error)
        time.sleep(asked_s + min(8.0, 0.5 * 2**attempt))
    return rundir.UNREACHED


def digest(path: str) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    import hashlib

    total = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(BLOCK_BYTES), b""):
            total.update(block)
    return total.hexdigest()


def unpack(archive: str, target: str) -> None:
    """Write the regular files of an archive beneath a directory of our own; links are not made.

    Raises OSError, ValueError.
    """
    import shutil
    import tarfile

    with tarfile.open(archive, "r:gz") as tar:
        for member in tar:
            parts = member.name.split("/")
            source = tar.extractfile(member) if member.isreg() else None
            if source is None or {"", ".", ".."} & set(parts):
                raise ValueError(f"the workdir holds what is not a plain file: {member.name!r}")
            path = os.path.join(target, *parts)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with source, open(path, "xb") as file:
                shutil.copyfileobj(source, file, BLOCK_BYTES)
            os.chmod(path, 0o755 if member.mode & 0o100 else 0o644)
