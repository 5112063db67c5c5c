"""Do to a bucket what a plan says: send small files whole, large ones in parts; delete."""

from collections.abc import Iterator
from contextlib import closing
from functools import partial

import google_crc32c

from tpuctl.errors import PreconditionError
from tpuctl.models.transfer import PlannedDeletion, Transfer, TransferEvent, TransferPlan
from tpuctl.operations.stage.plan.checksum_cache import check_unchanged, open_checked, read_blocks
from tpuctl.operations.stage.transfer import part_layout as stage_parts
from tpuctl.operations.stage.transfer.large_push import (
    LargePush,
    check_written_meanwhile,
    push_in_one_piece,
)
from tpuctl.operations.stage.transfer.leftovers import Leftovers
from tpuctl.operations.stage.transfer.part_layout import WHOLE_BYTES
from tpuctl.operations.stage.transfer.pool import TransferReport, Unit, carry_out
from tpuctl.store.gcs.bulk import BulkBucket


def push(plan: TransferPlan, bulk: BulkBucket) -> Iterator[TransferEvent]:
    """Send; an object or a file that changed since the plan is an error of that transfer."""
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
