"""Remove what only the target of a copy has: each when it is still the one that was seen."""

from collections.abc import Iterator
from contextlib import closing
from functools import partial

from tpuctl.errors import PreconditionError
from tpuctl.models.transfer import Deletion, Event, Identity, Plan
from tpuctl.operations.stage.transfer.files import Target, remove, remove_empty
from tpuctl.operations.stage.transfer.pool import Report, as_ours, carry_out
from tpuctl.store.gcs.bulk import Bulk


def delete_objects(plan: Plan, bulk: Bulk) -> Iterator[Event]:
    """Remove objects, each by the generation of the plan."""
    return carry_out(partial(_delete_object, bulk, one) for one in plan.deletions)


def delete_files(plan: Plan) -> Iterator[Event]:
    """Remove files, and directories that became empty by it."""
    if not plan.deletions:
        return
    with Target(plan.root) as target:
        units = (partial(_delete_file, target, one) for one in plan.deletions)
        with closing(carry_out(units)) as events:
            yield from events
        try:
            target.sync()
        except OSError as error:
            raise as_ours(error) from error
        for directory in {one.name.rpartition("/")[0] for one in plan.deletions}:
            remove_empty(target, directory)


def _delete_object(bulk: Bulk, one: Deletion, report: Report) -> None:
    with report.about(one):
        bulk.delete(one.key, one.generation)
        report.finished(one)


def _delete_file(target: Target, one: Deletion, report: Report) -> None:
    with report.about(one):
        assert isinstance(one.identity, Identity)
        if not remove(target, one.name, one.identity):
            raise PreconditionError(f"{one.key} changed since the plan was made")
        report.finished(one)
