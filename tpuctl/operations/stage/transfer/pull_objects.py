"""Do to a directory what a plan says: fetch under temporary names until verified; delete."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial

import google_crc32c

from tpuctl.errors import IntegrityError, PreconditionError
from tpuctl.models.transfer import PlannedDeletion, Transfer, TransferEvent, TransferPlan
from tpuctl.network_policy import COPY_TRIES
from tpuctl.operations.stage.transfer.atomic_files import (
    TargetDirectory,
    UnfinishedFile,
    remove_empty,
    remove_file,
)
from tpuctl.operations.stage.transfer.large_pull import LargePull, checksum_error, fetch_range
from tpuctl.operations.stage.transfer.part_layout import WHOLE_BYTES
from tpuctl.operations.stage.transfer.pool import TransferReport, Unit, carry_out
from tpuctl.store.gcs.bulk import BulkBucket


def pull(plan: TransferPlan, bulk: BulkBucket) -> Iterator[TransferEvent]:
    """Fetch; an object that changed since the plan is an error of that transfer."""
    if not plan.to_send:
        return
    with TargetDirectory(plan.root) as target, ExitStack() as open_files:
        with closing(carry_out(_units(plan, target, bulk, open_files))) as events:
            yield from events
        target.sync()


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
    """Fetch all of an object; the checksum of what came."""
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
