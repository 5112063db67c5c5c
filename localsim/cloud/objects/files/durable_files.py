"""Writing to the disk of the objects: whole, durable, and with errors told in the API's terms."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from localsim.cloud.objects.storage_model import StorageError

synchronize_file = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync


def create_private(path: Path) -> BinaryIO:
    """A new, unbuffered file that its owner alone can read."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    return os.fdopen(descriptor, "wb", buffering=0)


def write_all(file: BinaryIO, data: bytes) -> None:
    """Write to an unbuffered file until nothing is left."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def synchronize(path: Path) -> None:
    """Make a file's bytes, or a directory's entries, durable; blocks."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def disk_errors() -> Iterator[None]:
    """A full or failing disk is the service's failure, told to the client as such."""
    try:
        yield
    except OSError as error:
        what = errno.errorcode.get(error.errno or 0, "I/O error")
        raise StorageError(507, "insufficientStorage", f"localsim cannot write: {what}") from error
