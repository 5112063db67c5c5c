"""`tpuctl data ...`: copies that are verified at both ends."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from tpuctl.cli.options import Noun
from tpuctl.cli.output import Moment
from tpuctl.cli.progress import byte_bar
from tpuctl.cli.runtime import Runtime
from tpuctl.errors import NotFoundError, PartialFailureError, RefusedError
from tpuctl.models.transfer import Plan, Sent
from tpuctl.operations import stage

app = Noun("Copy data to and from Cloud Storage.")

DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan, send nothing.")]
COLUMNS = {
    "key": lambda entry: entry.key,
    "size_bytes": lambda entry: entry.size_bytes,
    "updated": lambda entry: Moment(entry.updated_s),
    "crc32c": lambda entry: entry.crc32c,
    "generation": lambda entry: str(entry.generation),
}
PLANNED = {
    "key": lambda one: one.key,
    "path": lambda one: str(one.path),
    "size_bytes": lambda one: one.size_bytes,
    "action": lambda one: "skip" if one.is_current else "send",
}
SUMMARY = {
    "objects_sent": lambda row: row["objects_sent"],
    "bytes_sent": lambda row: row["bytes_sent"],
    "objects_skipped": lambda row: row["objects_skipped"],
}


@app.verb("push")
def push(
    ctx: typer.Context,
    source: Annotated[Path, typer.Argument(metavar="PATH")],
    target: Annotated[str, typer.Argument(metavar="gs://BUCKET/NAME")],
    dry_run: DryRun = False,
) -> None:
    """Copy a file or directory into a bucket; a second run sends nothing."""
    runtime = ctx.ensure_object(Runtime)
    bucket, prefix = stage.split_url(target)
    store = runtime.store(f"gs://{bucket}")
    plan = stage.plan_push(source, store, prefix)
    _carry_out(runtime, plan, lambda: stage.push(plan, store), dry_run=dry_run)


@app.verb("pull")
def pull(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(metavar="gs://BUCKET/NAME")],
    target: Annotated[Path, typer.Argument(metavar="PATH")],
    dry_run: DryRun = False,
) -> None:
    """Copy an object, or all under a prefix, to this machine; a second run fetches nothing."""
    runtime = ctx.ensure_object(Runtime)
    bucket, prefix = stage.split_url(source)
    store = runtime.store(f"gs://{bucket}")
    plan = stage.plan_pull(store, prefix, target)
    _carry_out(runtime, plan, lambda: stage.pull(plan, store), dry_run=dry_run)


@app.verb("list")
def list_objects(
    ctx: typer.Context,
    url: Annotated[
        str | None, typer.Argument(metavar="gs://BUCKET/PREFIX", help="Default: the context's.")
    ] = None,
) -> None:
    """List objects with size, age and checksum."""
    runtime = ctx.ensure_object(Runtime)
    if url is None and runtime.nothing_local_yet():
        runtime.output.items([], COLUMNS)
        return
    bucket, prefix = stage.split_url(url or f"gs://{runtime.context.bucket}")
    entries = list(runtime.store(f"gs://{bucket}").list(prefix))
    if not entries and prefix:
        raise NotFoundError(
            f"nothing is under gs://{bucket}/{prefix}", hint="run: tpuctl data list"
        )
    runtime.output.items(entries, COLUMNS, title=f"objects of gs://{bucket}")


def _carry_out(
    runtime: Runtime, plan: Plan, copy: Callable[[], Iterator[Sent]], *, dry_run: bool
) -> None:
    if dry_run:
        runtime.output.items(plan.transfers, PLANNED)
    else:
        runtime.goes_on.append("what was sent stays; run the same command again to send the rest")
        _copy(runtime, plan, copy)
    for refusal in plan.refusals:
        runtime.output.warn(f"{refusal.name}: not copied: {refusal.why}")
    if plan.refusals:
        kind = PartialFailureError if plan.transfers else RefusedError
        raise kind(f"{len(plan.refusals)} names were refused")


def _copy(runtime: Runtime, plan: Plan, copy: Callable[[], Iterator[Sent]]) -> None:
    failed = []
    with byte_bar(runtime, plan.size_bytes) as advance:
        for sent in copy():
            advance(sent.transfer.size_bytes)
            if sent.error:
                failed.append(sent)
                runtime.output.warn(f"{sent.transfer.key}: {sent.error}")
    if failed:
        raise PartialFailureError(
            f"{len(failed)} of {len(plan.to_send)} objects failed",
            hint="run the same command again: what is there is not sent twice",
        )
    row = {
        "objects_sent": len(plan.to_send),
        "bytes_sent": plan.size_bytes,
        "objects_skipped": len(plan.transfers) - len(plan.to_send),
    }
    runtime.output.item(row, SUMMARY)
