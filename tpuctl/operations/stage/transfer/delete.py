"""Remove what only the target of a copy has: each when it is still the one that was seen."""

from collections.abc import Iterator
from contextlib import closing
from functools import partial

from tpuctl.errors import PreconditionError
from tpuctl.models.transfer import FileIdentity, PlannedDeletion, TransferEvent, TransferPlan
from tpuctl.operations.stage.transfer.atomic_files import TargetDirectory, remove_empty, remove_file
from tpuctl.operations.stage.transfer.pool import TransferReport, carry_out, to_tpuctl_error
from tpuctl.store.gcs.bulk import BulkBucket


def delete_objects(plan: TransferPlan, bulk: BulkBucket) -> Iterator[TransferEvent]:
    """Remove objects, each by the generation of the plan."""
    return carry_out(partial(_delete_object, bulk, one) for one in plan.deletions)


def delete_files(plan: TransferPlan) -> Iterator[TransferEvent]:
    """Remove files, and directories that became empty by it."""
    if not plan.deletions:
        return
    with TargetDirectory(plan.root) as target:
        units = (partial(_delete_file, target, one) for one in plan.deletions)
        with closing(carry_out(units)) as events:
            yield from events
        try:
            target.sync()
        except OSError as error:
            raise to_tpuctl_error(error) from error
        for directory in {one.name.rpartition("/")[0] for one in plan.deletions}:
            remove_empty(target, directory)


def _delete_object(bulk: BulkBucket, one: PlannedDeletion, report: TransferReport) -> None:
    with report.about(one):
        bulk.delete(one.key, one.generation)
        report.finished(one)


def _delete_file(target: TargetDirectory, one: PlannedDeletion, report: TransferReport) -> None:
    with report.about(one):
        assert isinstance(one.identity, FileIdentity)
        if not remove_file(target, one.name, one.identity):
            raise PreconditionError(f"{one.key} changed since the plan was made")
        report.finished(one)
