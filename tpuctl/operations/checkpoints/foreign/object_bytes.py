"""The bytes of an object of a step, a block at a time."""

from collections.abc import Callable, Iterator

import google_crc32c

from tpuctl.errors import IntegrityError
from tpuctl.operations.checkpoints.foreign.step_folder import StepFolder
from tpuctl.store.crc32c_base64 import encode_crc32c

THREADS = 8
BLOCK_BYTES = 8 * 1024 * 1024


def read_blocks(
    folder: StepFolder, path: str, start: int = 0, end: int | None = None
) -> Iterator[bytes]:
    """The bytes from start up to, not including, end; IntegrityError when some are not there."""
    end = folder.files[path].size_bytes if end is None else end
    while start < end:
        block = folder.read(path, start, min(end, start + BLOCK_BYTES))
        if not block:
            raise IntegrityError(f"{folder.prefix}{path}: it ends after {start} bytes")
        start += len(block)
        yield block


def checksum(folder: StepFolder, path: str) -> str:
    """What the store says its CRC-32C is; where it does not know, that of its bytes."""
    return folder.files[path].crc32c or compute_checksum(folder, path)


def compute_checksum(
    folder: StepFolder, path: str, advance: Callable[[int], object] = lambda _: None
) -> str:
    """The CRC-32C of its bytes, all of them read; `advance` is told how many came."""
    value = 0
    for block in read_blocks(folder, path):
        value = google_crc32c.extend(value, block)
        advance(len(block))
    return encode_crc32c(value)
