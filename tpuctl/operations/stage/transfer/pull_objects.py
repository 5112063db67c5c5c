"""Do to a directory what a plan says: fetch objects, large ones in ranges; delete files.

An object has a temporary name until it is verified. Of a large one, what an earlier attempt wrote
and still is right is not fetched again.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial

import google_crc32c

from tpuctl.errors import IntegrityError, LocalIOError, NotFoundError, PreconditionError
from tpuctl.models.transfer import PlannedDeletion, Transfer, TransferEvent, TransferPlan
from tpuctl.network_policy import COPY_TRIES
from tpuctl.operations.stage.plan.checksum_cache import checksum
from tpuctl.operations.stage.transfer.atomic_files import (
    TargetDirectory,
    UnfinishedFile,
    remove_empty,
    remove_file,
)
from tpuctl.operations.stage.transfer.part_layout import (
    WHOLE_BYTES,
    PartedTransfer,
    Range,
    range_groups,
)
from tpuctl.operations.stage.transfer.pool import TransferReport, Unit, carry_out
from tpuctl.store.crc32c_combine import combine_crc32c
from tpuctl.store.gcs.bulk import BulkBucket

MIB = 1024**2
_JOURNAL_LINE = re.compile(r"(\d{1,18}) (\d{1,18}) ([0-9a-f]{8})")
"""A line of the journal: where a range starts and ends, and its CRC32C."""


def pull(plan: TransferPlan, bulk: BulkBucket) -> Iterator[TransferEvent]:
    """Fetch the objects of a plan; one that changed since is an error of its transfer.

    Raises LocalIOError before a byte is written, when there is less space than they need.
    """
    if not plan.to_send:
        return
    with TargetDirectory(plan.root) as target, ExitStack() as open_files:
        _check_space(plan, target)
        with closing(carry_out(_units(plan, target, bulk, open_files))) as events:
            yield from events
        target.sync()


def _check_space(plan: TransferPlan, target: TargetDirectory) -> None:
    """Compare what the objects need, beyond what earlier attempts left of them, with what is free.

    A file that is replaced stays until the new one is whole.
    """
    free_bytes = target.free_bytes()
    if plan.size_bytes <= free_bytes:
        return
    needed_bytes = sum(
        max(0, planned.size_bytes - target.kept_bytes(planned.name, str(planned.generation)))
        for planned in plan.to_send
    )
    if needed_bytes > free_bytes:
        raise LocalIOError(
            f"cannot write {plan.root}: {needed_bytes / MIB:,.1f} MiB are needed and "
            f"{free_bytes / MIB:,.1f} MiB are free",
            hint="make room, or pull to another disk",
        )


def delete_files(plan: TransferPlan) -> Iterator[TransferEvent]:
    """Delete what only the directory has, and directories that became empty by it.

    Each file is deleted when it is still the one that was planned.
    """
    if not plan.deletions:
        return
    with TargetDirectory(plan.root) as target:
        units = (partial(_delete_file, target, planned) for planned in plan.deletions)
        with closing(carry_out(units)) as events:
            yield from events
        target.sync()
        for directory in {planned.name.rpartition("/")[0] for planned in plan.deletions}:
            remove_empty(target, directory)


def _delete_file(target: TargetDirectory, planned: PlannedDeletion, report: TransferReport) -> None:
    with report.about(planned):
        assert planned.identity is not None
        if not remove_file(target, planned.name, planned.identity):
            raise PreconditionError(f"{planned.key} changed since the plan was made")
        report.finished(planned)


def _units(
    plan: TransferPlan, target: TargetDirectory, bulk: BulkBucket, open_files: ExitStack
) -> Iterator[Unit]:
    for transfer in plan.to_send:
        if transfer.size_bytes <= WHOLE_BYTES:
            yield partial(_pull_whole, transfer, target, bulk)
        else:
            large = LargePull(transfer, target, bulk)
            open_files.callback(large.close)
            yield from large.units()


def _pull_whole(
    transfer: Transfer, target: TargetDirectory, bulk: BulkBucket, report: TransferReport
) -> None:
    with report.about(transfer):
        file = UnfinishedFile(target, transfer.name, str(transfer.generation))
        try:
            for _ in range(COPY_TRIES):
                if _fetch_whole(transfer, file, bulk, report) == transfer.crc32c:
                    break
                report.progress(-transfer.size_bytes)
            else:
                raise checksum_error(transfer)
            file.become()
        except BaseException:
            file.discard()
            raise
        finally:
            file.close()
        report.finished(transfer)


def _fetch_whole(
    transfer: Transfer, file: UnfinishedFile, bulk: BulkBucket, report: TransferReport
) -> int:
    """Fetch all of an object into a file; returns the CRC32C of the bytes that came."""
    value, offset = 0, 0

    def write(block: bytes) -> None:
        nonlocal value, offset
        file.write_at(block, offset)
        value = google_crc32c.extend(value, block)
        offset += len(block)
        report.progress(len(block))

    file.cut(transfer.size_bytes)
    fetch_range(bulk, transfer, (0, transfer.size_bytes), write)
    if offset != transfer.size_bytes:
        raise IntegrityError(f"{transfer.key} is not as long as it was when the plan was made")
    return value


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
            noted = self._noted.get(part)
            if noted is not None and checksum(file.descriptor, *part) == noted:
                self._values[part] = noted
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
        """Write a block to the file, and note in the journal each part that is complete."""
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
    """Yield parts in groups whose members follow one another without a gap."""
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
    """Give a range of the planned generation to `write`. Raises PreconditionError."""
    try:
        bulk.download(transfer.key, transfer.generation, *part, write)
    except NotFoundError as error:
        raise PreconditionError(f"{transfer.key} changed since the plan was made") from error


def _parse_journal(lines: list[str]) -> Iterator[tuple[Range, int]]:
    for line in lines:
        if match := _JOURNAL_LINE.fullmatch(line):
            yield (int(match[1]), int(match[2])), int(match[3], 16)
