"""`tpuctl data copy`: from bucket to bucket, by the service itself."""

from typing import Annotated

import typer

from tpuctl.cli.data import plan_runner
from tpuctl.cli.data.plan_options import Delete, DryRun, Exclude, Include, MaxDelete, Yes
from tpuctl.cli.data.plan_runner import SENT, PlanOptions
from tpuctl.cli.shell.options import completed_by
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.models.transfer import TransferScope


def copy(
    runtime: Runtime,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="gs://BUCKET/NAME.", autocompletion=completed_by("url")
        ),
    ],
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET", help="gs://BUCKET/NAME.", autocompletion=completed_by("url")
        ),
    ],
    dry_run: DryRun = False,
    include: Include = None,
    exclude: Exclude = None,
    delete: Delete = False,
    max_delete: MaxDelete = 1000,
    yes: Yes = False,
) -> None:
    """Copy objects within Cloud Storage.

    An object, or all below a prefix, to another bucket or another name.

    Cloud Storage copies, and no byte comes here; metadata goes with the object. A second run copies
    nothing.
    """
    from tpuctl.operations.stage.plan.bucket_copy_plan import plan_bucket_copy
    from tpuctl.operations.stage.plan.egress_price import copy_egress_warning
    from tpuctl.operations.stage.plan.endpoints import check_copy
    from tpuctl.operations.stage.transfer.copy_objects import copy_objects
    from tpuctl.operations.stage.transfer.push_files import delete_objects

    ends = check_copy(source, target)
    bulks = runtime.bulk(ends[0].bucket), runtime.bulk(ends[1].bucket)
    scope = TransferScope(tuple(include or ()), tuple(exclude or ()), delete)
    planned = plan_bucket_copy(*bulks, ends, scope)
    if warning := copy_egress_warning(*bulks, planned.plan.size_bytes):
        runtime.output.warn(warning)
    plan_runner.carry_out_plan(
        runtime, planned.plan, PlanOptions(dry_run, yes, max_delete), SENT,
        copy=lambda: copy_objects(planned),
        remove=(lambda: delete_objects(planned.plan, bulks[1])) if delete else None,
    )  # fmt: skip
