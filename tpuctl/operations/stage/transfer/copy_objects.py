"""Copies between buckets: the service copies, in as many calls as it takes; no byte comes here."""

from collections.abc import Iterator
from functools import partial

from tpuctl.errors import IntegrityError, PreconditionError
from tpuctl.models.transfer import Transfer, TransferEvent
from tpuctl.operations.stage.plan.bucket_copy_plan import BucketCopy
from tpuctl.operations.stage.transfer.pool import TransferReport, carry_out
from tpuctl.operations.stage.transfer.push_files import check_written_meanwhile


def copy_objects(copy: BucketCopy) -> Iterator[TransferEvent]:
    """Copy the objects of a plan; one that changed since is an error of its transfer."""
    return carry_out(partial(_copy_object, copy, transfer) for transfer in copy.plan.to_send)


def _copy_object(copy: BucketCopy, transfer: Transfer, report: TransferReport) -> None:
    source, was_there = copy.sources[transfer.key], False
    with report.about(transfer):
        value = source.crc32c
        if value is None:
            raise IntegrityError(f"{copy.source.url}/{source.key} has no checksum to compare")
        try:
            copy.target.rewrite(
                transfer.key, copy.source.name, source, generation=transfer.generation,
                keeps_metadata=True,
            )  # fmt: skip
        except PreconditionError as error:
            check_written_meanwhile(copy.target, transfer, value, error)
            was_there = True
        report.progress(transfer.size_bytes)
        report.finished(transfer, was_there=was_there)
