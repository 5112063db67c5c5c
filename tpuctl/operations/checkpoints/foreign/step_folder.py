"""One folder of a checkpoint directory, and its objects by their path in it."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import google_crc32c

from tpuctl.errors import IntegrityError, NotFoundError
from tpuctl.operations.checkpoints.step_view import StepState
from tpuctl.store import Entry, Store
from tpuctl.store.crc32c_base64 import encode_crc32c

_LARGEST_JSON_BYTES = 64 * 1024 * 1024


THREADS = 8
BLOCK_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True)
class StepFolder:
    """A folder of a store and the objects in it, as they were listed."""

    store: Store
    name: str
    files: Mapping[str, Entry]
    """By their path in the folder."""

    @property
    def prefix(self) -> str:
        """The prefix of the keys of its objects."""
        return f"{self.name}/"

    @property
    def is_in_bucket(self) -> bool:
        """Whether an object appears at once and whole; in a directory a file grows."""
        return self.store.url.startswith("gs://")

    @property
    def size_bytes(self) -> int:
        """The size of all its objects together."""
        return sum(each.size_bytes for each in self.files.values())

    def relist(self) -> "StepFolder":
        """The folder as it is now."""
        entries = without_folders(self.store.list(self.prefix))
        return replace(self, files={each.key.removeprefix(self.prefix): each for each in entries})

    def read(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        """Bytes of a file from start to end, of the generation that was listed.

        Raises IntegrityError when that is gone.
        """
        entry = self.files[path]
        try:
            return self.store.get_range(entry.key, start, end, generation=entry.generation)
        except NotFoundError as error:
            raise IntegrityError(f"{entry.key}: missing, or replaced") from error

    def json(self, path: str) -> dict[str, Any]:
        """The JSON object in a file; IntegrityError when there is none."""
        entry = self.files[path]
        if entry.size_bytes > _LARGEST_JSON_BYTES:
            raise IntegrityError(f"{entry.key}: {entry.size_bytes} bytes are too many for it")
        try:
            value = json.loads(self.read(path))
        except (ValueError, RecursionError) as error:
            raise IntegrityError(f"{entry.key}: not JSON") from error
        if not isinstance(value, dict):
            raise IntegrityError(f"{entry.key}: not a JSON object")
        return value


def without_folders(listed: Iterable[Entry]) -> list[Entry]:
    """What was listed, without the objects that some tools put for empty directories."""
    return [each for each in listed if not each.key.endswith("/")]


@dataclass(frozen=True)
class FolderStatus:
    """The state of a step by its own files: PARTIAL, CORRUPT or UNSEALED."""

    state: StepState
    marker: str | None = None
    """The path of what its writer writes last."""
    reason: str = ""
    committed_s: float | None = None
    save_s: float | None = None


def read_blocks(
    folder: StepFolder, path: str, start: int = 0, end: int | None = None
) -> Iterator[bytes]:
    """Yield the bytes of a file from start up to, not including, end.

    Raises IntegrityError when some are missing.
    """
    end = folder.files[path].size_bytes if end is None else end
    while start < end:
        block = folder.read(path, start, min(end, start + BLOCK_BYTES))
        if not block:
            raise IntegrityError(f"{folder.prefix}{path}: it ends after {start} bytes")
        start += len(block)
        yield block


def checksum(folder: StepFolder, path: str) -> str:
    """The CRC-32C of a file in base64, as the store lists it, or else of its bytes."""
    return folder.files[path].crc32c or compute_checksum(folder, path)


def compute_checksum(
    folder: StepFolder, path: str, advance: Callable[[int], object] = lambda _: None
) -> str:
    """The CRC-32C of all bytes of a file in base64; `advance` gets their number."""
    value = 0
    for block in read_blocks(folder, path):
        value = google_crc32c.extend(value, block)
        advance(len(block))
    return encode_crc32c(value)
