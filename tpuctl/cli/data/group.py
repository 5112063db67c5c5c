"""`tpuctl data ...`: copies that are verified at both ends."""

import itertools
from typing import Annotated

import typer

from tpuctl.cli.data import plan_runner
from tpuctl.cli.data.plan_options import Delete, DryRun, Exclude, Include, MaxDelete, Yes
from tpuctl.cli.data.plan_runner import RECEIVED, SENT, PlanOptions
from tpuctl.cli.shell.copy_progress import warn_of_egress_charge
from tpuctl.cli.shell.options import Noun, Shard, completed_by
from tpuctl.cli.shell.progress_display import show_spinner
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.list_verb import ListVerb
from tpuctl.cli.shell.tables.listing import Listing, declare_keys
from tpuctl.cli.shell.tables.values import attributes, moments, sizes
from tpuctl.errors import NotFoundError
from tpuctl.models.transfer import CopyOptions, TransferScope
from tpuctl.operations.stage.plan.endpoints import are_disk_and_bucket
from tpuctl.operations.stage.plan.names import split_url

app = Noun("Copy data to and from Cloud Storage and workers.")

COLUMNS = {
    **attributes("key"),
    **sizes("size_bytes"),
    **moments("updated"),
    **attributes(crc32c="checksum"),
    "generation": lambda entry: str(entry.generation),
}
OBJECTS = Listing(COLUMNS, least=("generation", "crc32c"))


@app.verb("push")
def push(
    runtime: Runtime,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="PATH, gs://BUCKET/NAME or -.",
            autocompletion=completed_by("path or url"),
        ),
    ],
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="gs://BUCKET/NAME or worker:NODE[/ID]:PATH.",
            autocompletion=completed_by("url"),
        ),
    ],
    dry_run: DryRun = False,
    include: Include = None,
    exclude: Exclude = None,
    delete: Delete = False,
    max_delete: MaxDelete = 1000,
    yes: Yes = False,
    shard: Shard = False,
) -> None:
    """Copy files to a bucket or to the workers of a slice.

    To workers they go through a bucket.

    A second run sends nothing.

    Symbolic links to files of the same directory are sent as those files; others are refused.
    """
    from tpuctl.operations.stage.plan.push_plan import plan_push
    from tpuctl.operations.stage.transfer import push_files

    scope = TransferScope(tuple(include or ()), tuple(exclude or ()), delete)
    if shard or not are_disk_and_bucket(source, target):
        from tpuctl.cli.data import worker_copy

        worker_copy.push(runtime, source, target, CopyOptions(scope, dry_run, shard))
        return
    bucket, prefix = split_url(target)
    bulk = runtime.bulk(bucket)
    with show_spinner(runtime, f"comparing {source} with {target}", is_brief=True):
        plan = plan_push(source, bulk, prefix, runtime.checksums, scope)
    warn_of_egress_charge(runtime, bucket, plan.size_bytes)
    plan_runner.carry_out_plan(
        runtime, plan, PlanOptions(dry_run, yes, max_delete), SENT,
        copy=lambda: push_files.push(plan, bulk),
        remove=(lambda: push_files.delete_objects(plan, bulk)) if delete else None,
    )  # fmt: skip


@app.verb("pull")
def pull(
    runtime: Runtime,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="gs://BUCKET/NAME or worker:NODE[/ID]:PATH.",
            autocompletion=completed_by("url"),
        ),
    ],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="PATH or -.")],
    dry_run: DryRun = False,
    include: Include = None,
    exclude: Exclude = None,
    delete: Delete = False,
    max_delete: MaxDelete = 1000,
    yes: Yes = False,
) -> None:
    """Copy objects to this machine.

    An object, or all below a prefix. A second run fetches nothing.
    """
    from tpuctl.operations.stage.plan.pull_plan import plan_pull
    from tpuctl.operations.stage.transfer import pull_objects

    scope = TransferScope(tuple(include or ()), tuple(exclude or ()), delete)
    if not are_disk_and_bucket(target, source):
        from tpuctl.cli.data import worker_copy

        worker_copy.pull(runtime, source, target, CopyOptions(scope, dry_run))
        return
    bucket, prefix = split_url(source)
    bulk = runtime.bulk(bucket)
    with show_spinner(runtime, f"comparing {source} with {target}", is_brief=True):
        plan = plan_pull(bulk, prefix, target, runtime.checksums, scope)
    warn_of_egress_charge(runtime, bucket, plan.size_bytes)
    plan_runner.carry_out_plan(
        runtime, plan, PlanOptions(dry_run, yes, max_delete), RECEIVED,
        copy=lambda: pull_objects.pull(plan, bulk),
        remove=(lambda: pull_objects.delete_files(plan)) if delete else None,
    )  # fmt: skip


app.verb_in("copy", "data.copy:copy")
app.verb_in("verify", "data.verify:verify")
app.verb_in("mount", "data.mount:mount")
app.verb_in("rm", "data.rm:remove")


@app.verb("list", ListVerb)
@declare_keys(lambda: OBJECTS.keys)
def list_objects(
    runtime: Runtime,
    url: Annotated[
        str | None,
        typer.Argument(
            metavar="gs://BUCKET/PREFIX",
            help="Default: the context's.",
            autocompletion=completed_by("url"),
        ),
    ] = None,
) -> None:
    """List objects with size, age and checksum."""
    if url is None and runtime.has_no_local_state():
        runtime.output.items([], OBJECTS)
        return
    bucket, prefix = split_url(url or f"gs://{runtime.context.bucket}")
    entries = runtime.bulk(bucket).list(prefix)
    first = next(entries, None)
    if first is None and prefix:
        raise NotFoundError(
            f"nothing is under gs://{bucket}/{prefix}", hint="run: tpuctl data list"
        )
    begin = list(itertools.islice(itertools.chain([first], entries), 1000)) if first else []
    rows = ((f"gs://{bucket}/{entry.key}", "", 0) for entry in begin)
    runtime.remember("object", rows, f"gs://{bucket}/{prefix}")
    listed = itertools.chain(begin, entries)
    runtime.output.stream(listed, OBJECTS, title=f"objects of gs://{bucket}")
