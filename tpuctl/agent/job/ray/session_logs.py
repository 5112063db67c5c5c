"""The logs of Ray's processes: their ends go to the bucket, and the rest goes away. Python 3.8."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import sys
import tarfile

from tpuctl.agent.job.logs import uploader
from tpuctl.agent.job.logs.redaction import Redaction
from tpuctl.agent.job.objects import ObjectClient
from tpuctl.agent.job.ray.ray_node import LINK
from tpuctl.agent.job.state import rundir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FILE_BYTES = 256 * 1024
TOTAL_BYTES = 8 * 1024 * 1024
PATIENCE_S = 5.0


def collect(directory: str) -> int:
    """Upload the ends of the logs and remove what Ray kept; return 1 when they are not uploaded.

    Standard input has the values that are in no file: {"secrets": {NAME: VALUE}}.
    """
    link = os.path.join(directory, LINK)
    redaction = Redaction()
    redaction.add(json.load(sys.stdin)["secrets"].values())
    packed = pack(ends(os.path.join(link, "session_latest", "logs"), redaction))
    config = rundir.config(directory)
    client = ObjectClient(config["endpoint"], config["bucket"])
    is_there = uploader.store_object(client, config["ray"]["logs"], packed, PATIENCE_S)
    remove(link)
    return 0 if is_there else 1


def remove(link: str) -> None:
    """Remove what a link leads to, and the link."""
    shutil.rmtree(os.path.realpath(link), ignore_errors=True)
    with contextlib.suppress(OSError):
        os.unlink(link)


def ends(folder: str, redaction: Redaction) -> Iterator[tuple[str, bytes]]:
    """Yield name and end of every log, the newest first, TOTAL_BYTES in all."""
    left_bytes = TOTAL_BYTES
    for path in sorted(files(folder), key=modified_s, reverse=True):
        with contextlib.suppress(OSError):
            data = redaction.redact(last_bytes(path, min(FILE_BYTES, left_bytes)))
            if data:
                yield os.path.relpath(path, folder), data
            left_bytes -= len(data)
        if left_bytes <= 0:
            return


def files(folder: str) -> Iterator[str]:
    """Yield the regular files below a folder; none when it is not there."""
    for place, _, names in os.walk(folder):
        paths = (os.path.join(place, name) for name in names)
        yield from (path for path in paths if os.path.isfile(path) and not os.path.islink(path))


def modified_s(path: str) -> float:
    """Return when a file was written last; 0 when it is gone."""
    with contextlib.suppress(OSError):
        return os.stat(path).st_mtime
    return 0.0


def last_bytes(path: str, most: int) -> bytes:
    """Return whole lines from the end of a file: half of a secret would not be known as one."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - most))
        data = file.read(most)
    return data if size <= most else data.partition(b"\n")[2]


def pack(logs: Iterable[tuple[str, bytes]]) -> bytes:
    """Return a .tar.gz of files."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, data in logs:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return packed.getvalue()
