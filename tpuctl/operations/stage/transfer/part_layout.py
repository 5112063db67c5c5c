"""A large object as parts: where it may be cut, how, and what the parts are called."""

import hashlib
from collections.abc import Iterator

from tpuctl.errors import PermissionDeniedError
from tpuctl.operations.stage.plan.names import PARTS_PREFIX
from tpuctl.store.gcs.bulk import BulkBucket

MIB = 1024 * 1024
WHOLE_BYTES = 8 * MIB
"""What is not larger goes in one request."""
_LARGEST_BYTES = 64 * MIB
_WANTED_PARTS = 32
_STREAMS = 4

Range = tuple[int, int]
"""Where it starts, and where the next one does."""


def parts_are_free(bulk: BulkBucket) -> bool:
    """Whether parts can be deleted again at no cost; not, when nobody may tell us."""
    try:
        return bulk.facts().deletes_are_free
    except PermissionDeniedError:  # who may only use objects cannot know
        return False


def part_bytes(size_bytes: int) -> int:
    """The size of a part: 32 of them when that is between 8 and 64 MiB."""
    even = -(-size_bytes // _WANTED_PARTS)
    return min(_LARGEST_BYTES, max(WHOLE_BYTES, -(-even // MIB) * MIB))


def ranges(size_bytes: int) -> Iterator[Range]:
    """The (start, end) ranges of the parts of an object, in order."""
    step = part_bytes(size_bytes)
    for start in range(0, size_bytes, step):
        yield start, min(start + step, size_bytes)


def range_groups(size_bytes: int) -> Iterator[list[Range]]:
    """The parts of an object in groups that one request fetches: four, or of 64 MiB."""
    parts = list(ranges(size_bytes))
    largest = max(1, _LARGEST_BYTES // part_bytes(size_bytes))
    together = min(largest, -(-len(parts) // _STREAMS))
    for first in range(0, len(parts), together):
        yield parts[first : first + together]


def parts_prefix(key: str) -> str:
    """The prefix of an object's parts until it is whole."""
    return f"{PARTS_PREFIX}{hashlib.sha256(key.encode()).hexdigest()[:32]}/"


def part_key(key: str, part: Range, crc32c: int) -> str:
    """A part's own name: it says what is in it, so that two files never fight for one name."""
    start, end = part
    return f"{parts_prefix(key)}{start}-{end - start}-{crc32c:08x}"
