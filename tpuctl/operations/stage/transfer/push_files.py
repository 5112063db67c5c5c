"""Do to a bucket what a plan says: send small files whole, large ones in parts; delete."""

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import BinaryIO, cast

import google_crc32c

from tpuctl.errors import (
    IntegrityError,
    LocalIOError,
    NotFoundError,
    PreconditionError,
    TpuctlError,
)
from tpuctl.models.transfer import (
    FileIdentity,
    PlannedDeletion,
    Transfer,
    TransferEvent,
    TransferPlan,
)
from tpuctl.network_policy import COPY_TRIES
from tpuctl.operations.stage.plan.checksum_cache import (
    check_unchanged,
    checksum,
    open_checked,
    read_blocks,
)
from tpuctl.operations.stage.transfer import part_layout as stage_parts
from tpuctl.operations.stage.transfer.leftovers import Leftovers, error_of_object
from tpuctl.operations.stage.transfer.part_layout import (
    WHOLE_BYTES,
    PartedTransfer,
    Range,
    combined_checksum,
    join_parts,
    part_key,
    parts_prefix,
)
from tpuctl.operations.stage.transfer.pool import TransferReport, Unit, carry_out
from tpuctl.store.gcs.bulk import MAX_COMPOSED, BulkBucket, ObjectInfo


def push(plan: TransferPlan, bulk: BulkBucket) -> Iterator[TransferEvent]:
    """Send the files of a plan.

    An object or a file that changed since is reported as an error of its transfer.
    """
    leftovers = Leftovers(bulk)
    with closing(carry_out(_units(plan, bulk, leftovers))) as events:
        yield from events
    yield from leftovers.notices()


def delete_objects(plan: TransferPlan, bulk: BulkBucket) -> Iterator[TransferEvent]:
    """Delete what only the bucket has: each object when it is still the one that was planned."""
    return carry_out(partial(_delete_object, bulk, planned) for planned in plan.deletions)


def _delete_object(bulk: BulkBucket, planned: PlannedDeletion, report: TransferReport) -> None:
    with report.about(planned):
        bulk.delete(planned.key, planned.generation)
        report.finished(planned)


def _units(plan: TransferPlan, bulk: BulkBucket, leftovers: Leftovers) -> Iterator[Unit]:
    in_parts: bool | None = None
    for transfer in plan.to_send:
        if transfer.size_bytes <= WHOLE_BYTES:
            yield partial(_push_whole, plan, transfer, bulk)
            continue
        if in_parts is None:
            in_parts = stage_parts.parts_are_free(bulk)
        if in_parts:
            yield from LargePush(plan.path(transfer.name), transfer, bulk, leftovers).units()
        else:
            yield partial(push_in_one_piece, plan, transfer, bulk)
    yield from leftovers.units(plan)


def _push_whole(
    plan: TransferPlan, transfer: Transfer, bulk: BulkBucket, report: TransferReport
) -> None:
    with report.about(transfer):
        path = plan.path(transfer.name)
        assert transfer.identity is not None
        with open_checked(path, transfer.identity) as descriptor:
            data = b"".join(read_blocks(descriptor, 0, transfer.size_bytes + 1))
            check_unchanged(descriptor, transfer.identity, path)
        value, was_there = google_crc32c.value(data), False
        try:
            bulk.upload(
                transfer.key, lambda: (data,), len(data), value, generation=transfer.generation
            )
        except PreconditionError as error:
            check_written_meanwhile(bulk, transfer, value, error)
            was_there = True
        report.progress(transfer.size_bytes)
        report.finished(transfer, was_there=was_there)


class LargePush(PartedTransfer):
    """The parts of one object; whoever sends the last one joins them."""

    def __init__(
        self, path: str, transfer: Transfer, bulk: BulkBucket, leftovers: Leftovers
    ) -> None:
        super().__init__(transfer, bulk)
        self._path = path
        self._leftovers = leftovers
        self._there: dict[str, ObjectInfo] | None = None
        self._parts: dict[Range, ObjectInfo] = {}
        self._mine: set[str] = set()

    def units(self) -> Iterator[Unit]:
        """Yield a unit of work for each part."""
        return (partial(self.carry_out, [part]) for part in self.ranges)

    def transfer_parts(self, parts: list[Range], report: TransferReport) -> None:
        """Send the parts that are not in the bucket yet. Raises TpuctlError, OSError."""
        for part in parts:
            self._parts[part] = self._send(part, report)

    def explain(self, error: TpuctlError) -> TpuctlError:
        """The same error, naming the object where it named one of the parts."""
        return error_of_object(error, parts_prefix(self.transfer.key), self.transfer.key)

    def _send(self, part: Range, report: TransferReport) -> ObjectInfo:
        identity = _planned_identity(self.transfer)
        start, end = part
        with open_checked(self._path, identity) as descriptor:
            value = checksum(descriptor, start, end)
            check_unchanged(descriptor, identity, self._path)
            key = self._key(part, value)
            earlier = self._earlier().get(key)
            if earlier is None:
                pieces = counted_blocks(descriptor, part, self._path, report)
                send = partial(self.bulk.upload, key, pieces, end - start, value, generation=0)
                return self._written(key, part, value, send)
        if (earlier.size_bytes, earlier.crc32c) != (end - start, value):
            raise IntegrityError(f"{self.bulk.url}/{key}: a part is not what its name says")
        report.progress(end - start)
        return earlier

    def _written(
        self, key: str, part: Range, value: int, write: Callable[[], ObjectInfo]
    ) -> ObjectInfo:
        try:
            return write()
        except PreconditionError:
            # Another process sends the same bytes: what it wrote is as good as ours.
            current = self.bulk.head(key)
            size_bytes = part[1] - part[0]
            if current is None or (current.size_bytes, current.crc32c) != (size_bytes, value):
                raise
            return current

    def _earlier(self) -> dict[str, ObjectInfo]:
        with self.turn:
            if self._there is None:
                listed = self.bulk.list(parts_prefix(self.transfer.key))
                self._there = {entry.key: entry for entry in listed}
            return self._there

    def finish(self, report: TransferReport) -> bool:
        """Compose the object; returns whether somebody else had made the same meanwhile."""
        was_there = False
        for attempt in range(COPY_TRIES):
            with open_checked(self._path, _planned_identity(self.transfer)):
                pass  # the name leads to the same file, with the same bytes
            try:
                self._compose()
                break
            except (NotFoundError, PreconditionError) as error:
                whole = combined_checksum([self._parts[part] for part in self.ranges])
                if was_there := is_already_written(self.bulk, self.transfer, whole, error):
                    break
                if attempt == COPY_TRIES - 1:
                    raise
                # Somebody removed parts as leftovers: what is missing is sent once more.
                self._there = None
                for part in self.ranges:
                    report.progress(part[0] - part[1])
                    self._parts[part] = self._send(part, report)
        self._leftovers.remove_outdated(self.transfer.key, self._mine)
        return was_there

    def _compose(self) -> None:
        pieces = [(part, self._parts[part]) for part in self.ranges]
        while len(pieces) > MAX_COMPOSED:
            starts = range(0, len(pieces), MAX_COMPOSED)
            pieces = [self._level(pieces[start : start + MAX_COMPOSED]) for start in starts]
        sources = [piece for _, piece in pieces]
        join_parts(self.bulk, self.transfer.key, sources, self.transfer.generation)

    def _level(self, group: Sequence[tuple[Range, ObjectInfo]]) -> tuple[Range, ObjectInfo]:
        if len(group) == 1:
            return group[0]
        part = (group[0][0][0], group[-1][0][1])
        sources = [piece for _, piece in group]
        value = combined_checksum(sources)
        key = self._key(part, value)
        write = partial(join_parts, self.bulk, key, sources, 0)
        return part, self._written(key, part, value, write)

    def _key(self, part: Range, value: int) -> str:
        key = part_key(self.transfer.key, part, value)
        self._mine.add(key)
        return key


def push_in_one_piece(
    plan: TransferPlan, transfer: Transfer, bulk: BulkBucket, report: TransferReport
) -> None:
    """Send a large file in one piece, where parts would cost money or cannot be removed."""
    with report.about(transfer):
        path = plan.path(transfer.name)
        with (
            open_checked(path, _planned_identity(transfer)) as descriptor,
            UnchangingFile(descriptor, _planned_identity(transfer)) as file,
        ):
            was_there = False
            try:
                bulk.upload_resumable(
                    transfer.key, cast("BinaryIO", file), generation=transfer.generation
                )
            except PreconditionError as error:
                check_written_meanwhile(
                    bulk, transfer, checksum(descriptor, 0, transfer.size_bytes), error
                )
                was_there = True
        report.progress(transfer.size_bytes)
        report.finished(transfer, was_there=was_there)


def check_written_meanwhile(
    bulk: BulkBucket, transfer: Transfer, value: int, error: TpuctlError
) -> None:
    """Raise `error`, unless the object was written meanwhile with the bytes of CRC32C `value`."""
    if not is_already_written(bulk, transfer, value, error):
        raise error


def is_already_written(
    bulk: BulkBucket, transfer: Transfer, value: int, error: TpuctlError
) -> bool:
    """Whether the object was written since the plan with the same bytes; False if not written.

    Raises PreconditionError when it was written with other bytes, or removed.
    """
    current = bulk.head(transfer.key)
    if (current.generation if current else 0) == transfer.generation:
        return False
    if current is None or (current.size_bytes, current.crc32c) != (transfer.size_bytes, value):
        raise PreconditionError(
            f"{bulk.url}/{transfer.key} was written by somebody else meanwhile"
        ) from error
    return True


def counted_blocks(
    descriptor: int, part: Range, path: str, report: TransferReport
) -> Callable[[], Iterator[bytes]]:
    """A function that reads a range of a file, and reports progress, from its start at each call.

    The progress that an earlier call reported is taken back.
    """
    sent = 0

    def pieces() -> Iterator[bytes]:
        nonlocal sent
        if sent:
            report.progress(-sent)
        sent = 0
        try:
            for block in read_blocks(descriptor, *part):
                yield block
                sent += len(block)
                report.progress(len(block))
        except OSError as error:
            raise LocalIOError(f"cannot read {path}: {error.strerror}") from error
        if sent != part[1] - part[0]:
            raise IntegrityError(f"{path} changed while it was read")

    return pieces


class UnchangingFile(io.FileIO):
    """A file whose reads fail once it has changed, so that no mixture of versions is sent."""

    def __init__(self, descriptor: int, identity: FileIdentity) -> None:
        super().__init__(descriptor, closefd=False)
        self._identity = identity

    def read(self, size: int | None = -1, /) -> bytes:
        """Read up to `size` bytes. Raises IntegrityError when the file has changed."""
        data = super().read(-1 if size is None else size)
        check_unchanged(self.fileno(), self._identity, "the file")
        return data or b""


def _planned_identity(transfer: Transfer) -> FileIdentity:
    if transfer.identity is None:
        raise ValueError(f"{transfer.key}: the plan did not look at its file")
    return transfer.identity
