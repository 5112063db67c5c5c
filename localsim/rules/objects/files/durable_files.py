"""Durable writes of the objects' files, with errors in the API's terms."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from localsim.rules.objects.storage_model import StorageError

synchronize_file = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync


def create_private(path: Path) -> BinaryIO:
    """Create an unbuffered file that only its owner can read."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    return os.fdopen(descriptor, "wb", buffering=0)


def write_all(file: BinaryIO, data: bytes) -> None:
    """Write all of the data to an unbuffered file."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


@contextmanager
def disk_errors() -> Iterator[None]:
    """Convert errors of the disk in the block into StorageError 507."""
    try:
        yield
    except OSError as error:
        what = errno.errorcode.get(error.errno or 0, "I/O error")
        raise StorageError(507, "insufficientStorage", f"localsim cannot write: {what}") from error
