"""One large object, fetched in ranges: what was written and still is right is not fetched again."""

import re
from collections.abc import Callable, Iterator
from functools import partial

import google_crc32c

from tpuctl.errors import IntegrityError, LocalIOError, NotFoundError, PreconditionError
from tpuctl.models.transfer import Transfer
from tpuctl.operations.stage.plan.checksum_cache import checksum
from tpuctl.operations.stage.transfer.atomic_files import TargetDirectory, UnfinishedFile
from tpuctl.operations.stage.transfer.part_layout import PartedTransfer, Range, range_groups
from tpuctl.operations.stage.transfer.pool import TransferReport, Unit
from tpuctl.store.crc32c_combine import combine_crc32c
from tpuctl.store.gcs.bulk import BulkBucket

_JOURNAL_LINE = re.compile(r"(\d{1,18}) (\d{1,18}) ([0-9a-f]{8})")
"""A line of the journal: where a range starts and ends, and its CRC32C."""


class LargePull(PartedTransfer):
    """The ranges of one object, in one file; whoever fetches the last one gives it its name."""

    def __init__(self, transfer: Transfer, target: TargetDirectory, bulk: BulkBucket) -> None:
        super().__init__(transfer, bulk)
        self._target = target
        self._values: dict[Range, int] = {}
        self._noted: dict[Range, int] = {}
        self._file: UnfinishedFile | None = None

    def units(self) -> Iterator[Unit]:
        """Yield a unit of work for each request."""
        return (partial(self.carry_out, parts) for parts in range_groups(self.transfer.size_bytes))

    def close(self) -> None:
        """Close the file; what is in it stays for the next attempt."""
        with self.turn:
            if self._file is not None:
                self._file.close()
            self._file = None
            self.has_failed = True

    def transfer_parts(self, parts: list[Range], report: TransferReport) -> None:
        """Fetch the parts that an earlier attempt did not leave. Raises TpuctlError."""
        file = self._open()
        missing: list[Range] = []
        for part in parts:
            if self._is_there(file, part):
                self._values[part] = self._noted[part]
                report.progress(part[1] - part[0])
            else:
                missing.append(part)
        for run in _runs(missing):
            self._fetch_run(file, run, report)

    def finish(self, report: TransferReport) -> bool:
        """Give the file its name once its checksum is right. Raises TpuctlError."""
        file = self._open()
        # Only the whole has a checksum: which range was damaged shows when it comes as it should.
        again = iter(range_groups(self.transfer.size_bytes))
        while not self._is_right():
            run = next(again, None)
            if run is None:
                file.discard()
                raise checksum_error(self.transfer)
            report.progress(run[0][0] - run[-1][1])
            self._fetch_run(file, run, report)
        file.cut(self.transfer.size_bytes)
        file.become()
        self.close()
        return False

    def _open(self) -> UnfinishedFile:
        with self.turn:
            if self._file is None:
                generation = str(self.transfer.generation)
                file = UnfinishedFile(self._target, self.transfer.name, generation)
                self._noted = dict(_parse_journal(file.journal()))
                try:
                    file.reserve(self.transfer.size_bytes)
                except LocalIOError:
                    if not self._noted:
                        file.discard()  # else it would hold what little space there is
                    file.close()
                    raise
                self._file = file
            return self._file

    def _fetch_run(self, file: UnfinishedFile, run: list[Range], report: TransferReport) -> None:
        incoming = _Incoming(file, run, report)
        fetch_range(self.bulk, self.transfer, (run[0][0], run[-1][1]), incoming.write)
        self._values |= incoming.values

    def _is_there(self, file: UnfinishedFile, part: Range) -> bool:
        noted = self._noted.get(part)
        return noted is not None and checksum(file.descriptor, *part) == noted

    def _is_right(self) -> bool:
        pieces = ((self._values[part], part[1] - part[0]) for part in self.ranges)
        return combine_crc32c(pieces) == self.transfer.crc32c


class _Incoming:
    """Writes parts that follow one another, as their bytes come."""

    def __init__(self, file: UnfinishedFile, parts: list[Range], report: TransferReport) -> None:
        self.values: dict[Range, int] = {}
        self._file = file
        self._parts = iter(parts)
        self._part = next(self._parts)
        self._offset = self._part[0]
        self._value = 0
        self._report = report

    def write(self, block: bytes) -> None:
        """Write, and note each part that is complete."""
        while block:
            left = self._part[1] - self._offset
            piece, block = block[:left], block[left:]
            self._file.write_at(piece, self._offset)
            self._value = google_crc32c.extend(self._value, piece)
            self._offset += len(piece)
            self._report.progress(len(piece))
            if self._offset == self._part[1]:
                self._complete()

    def _complete(self) -> None:
        start, end = self._part
        self.values[self._part] = self._value
        self._file.note(f"{start} {end} {self._value:08x}")
        self._file.settle(start, end)
        self._part = next(self._parts, (end, end))
        self._value = 0


def _runs(parts: list[Range]) -> Iterator[list[Range]]:
    """Parts in groups without a gap."""
    run: list[Range] = []
    for part in parts:
        if run and run[-1][1] != part[0]:
            yield run
            run = []
        run.append(part)
    if run:
        yield run


def checksum_error(transfer: Transfer) -> IntegrityError:
    """The error of an object whose bytes came with another checksum."""
    return IntegrityError(f"{transfer.key}: the bytes received are not the bytes stored")


def fetch_range(
    bulk: BulkBucket, transfer: Transfer, part: Range, write: Callable[[bytes], object]
) -> None:
    """Give a range of the generation that was planned to `write`; PreconditionError without it."""
    try:
        bulk.download(transfer.key, transfer.generation, *part, write)
    except NotFoundError as error:
        raise PreconditionError(f"{transfer.key} changed since the plan was made") from error


def _parse_journal(lines: list[str]) -> Iterator[tuple[Range, int]]:
    for line in lines:
        if match := _JOURNAL_LINE.fullmatch(line):
            yield (int(match[1]), int(match[2])), int(match[3], 16)
