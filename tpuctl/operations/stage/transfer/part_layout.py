"""A large object as parts: where it is cut, what the parts are called, who finishes it."""

import hashlib
import threading
from collections.abc import Iterator, Sequence

from tpuctl.errors import PermissionDeniedError, TpuctlError
from tpuctl.models.transfer import Transfer
from tpuctl.operations.stage.plan.names import PARTS_PREFIX
from tpuctl.operations.stage.transfer.pool import TransferReport, to_tpuctl_error
from tpuctl.store.crc32c_combine import combine_crc32c
from tpuctl.store.gcs.bulk import BulkBucket, ObjectInfo

MIB = 1024 * 1024
WHOLE_BYTES = 8 * MIB
"""What is not larger goes in one request."""
_LARGEST_BYTES = 64 * MIB
_WANTED_PARTS = 32
_STREAMS = 4

Range = tuple[int, int]
"""Where it starts, and where the next one does."""


def parts_are_free(bulk: BulkBucket) -> bool:
    """Whether the bucket deletes parts at no cost; False when its settings cannot be read."""
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
    """Yield the parts of an object in groups that one request fetches: four, or 64 MiB of them."""
    parts = list(ranges(size_bytes))
    largest = max(1, _LARGEST_BYTES // part_bytes(size_bytes))
    together = min(largest, -(-len(parts) // _STREAMS))
    for first in range(0, len(parts), together):
        yield parts[first : first + together]


def parts_prefix(key: str) -> str:
    """The prefix of an object's parts until it is whole."""
    return f"{PARTS_PREFIX}{hashlib.sha256(key.encode()).hexdigest()[:32]}/"


def part_key(key: str, part: Range, crc32c: int) -> str:
    """The key of a part, with its range and checksum: parts of other bytes have other keys."""
    start, end = part
    return f"{parts_prefix(key)}{start}-{end - start}-{crc32c:08x}"


def combined_checksum(parts: Sequence[ObjectInfo]) -> int:
    """The CRC32C of the bytes of all parts together."""
    return combine_crc32c((part.crc32c or 0, part.size_bytes) for part in parts)


def join_parts(
    bulk: BulkBucket, key: str, parts: Sequence[ObjectInfo], generation: int
) -> ObjectInfo:
    """Compose up to 32 parts to one object, which replaces that generation (0: nothing)."""
    checksum = combined_checksum(parts)
    made = bulk.compose(key, parts, checksum, generation=generation)
    return ObjectInfo(key, sum(part.size_bytes for part in parts), made, checksum, "")


class PartedTransfer:
    """One transfer whose parts several threads carry out; the first error ends it."""

    def __init__(self, transfer: Transfer, bulk: BulkBucket) -> None:
        self.transfer = transfer
        self.bulk = bulk
        self.ranges = list(ranges(transfer.size_bytes))
        self.turn = threading.Lock()
        self.has_failed = False
        self._left = len(self.ranges)

    def carry_out(self, parts: list[Range], report: TransferReport) -> None:
        """Transfer some parts; whoever transfers the last ones finishes the whole."""
        try:
            if not self.has_failed:
                self.transfer_parts(parts, report)
            with self.turn:
                self._left -= len(parts)
                is_last = self._left == 0 and not self.has_failed
            if is_last:
                report.finished(self.transfer, was_there=self.finish(report))
        except (TpuctlError, OSError) as error:
            with self.turn:
                is_first, self.has_failed = not self.has_failed, True
            if is_first:
                report.finished(self.transfer, self.explain(to_tpuctl_error(error)))

    def transfer_parts(self, parts: list[Range], report: TransferReport) -> None:
        """Transfer the bytes of some parts. Raises TpuctlError, OSError."""
        raise NotImplementedError

    def finish(self, report: TransferReport) -> bool:
        """Make one object or file of all parts; returns whether it had been made meanwhile."""
        raise NotImplementedError

    def explain(self, error: TpuctlError) -> TpuctlError:
        """The error to report for an error of a part."""
        return error
