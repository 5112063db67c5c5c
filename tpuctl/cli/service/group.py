"""`tpuctl service ...`: replicas of a model that answer requests."""

from pathlib import Path
from typing import Annotated

import typer

from tpuctl.cli.shell.options import Noun, NoWait, Yes, completed_by
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.list_verb import ListVerb
from tpuctl.errors import UsageError

app = Noun("Replicas of a model that answer requests.")

ServiceName = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The service.", autocompletion=completed_by("service")),
]


@app.verb("list", ListVerb)
def list_services(runtime: Runtime) -> None:
    """List services, the newest first.

    How many of their replicas are READY, and what their slices cost now.
    """
    from tpuctl.cli.service.details import known_name, show_services
    from tpuctl.cli.shell import job_notices
    from tpuctl.operations.services import queries

    if runtime.has_no_local_state():
        show_services(runtime.output, [])
        return
    views = job_notices.result_of(runtime, queries.list_services(runtime))
    runtime.remember("service", map(known_name, views))
    show_services(runtime.output, views, title=f"services of {runtime.context.name}")
    records = [view.record for view in views]
    job_notices.show_supervision(runtime, queries.check_supervised(runtime, records))


@app.verb("describe")
def describe(runtime: Runtime, name: ServiceName) -> None:
    """Show one service.

    Its replicas, revisions and proxies, what happened to it, and what it costs.
    """
    from tpuctl.cli.service.details import service_document, service_view
    from tpuctl.cli.shell import detail_view, job_notices
    from tpuctl.operations.services import queries

    view = job_notices.result_of(runtime, queries.load_service(runtime, name))
    if runtime.output.is_table:
        detail_view.print_details(runtime.output, service_view(view))
    else:
        runtime.output.fields(service_document(view))
    job_notices.show_supervision(runtime, queries.check_supervised(runtime, [view.record]))


app.verb_in("logs", "job.log:service_logs")


@app.verb("update")
def update(
    runtime: Runtime,
    name: ServiceName,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="The job file as it is now.")
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Load this one: serve.checkpoint of the job file."),
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GLOB", help="Send these files of the workdir, ignored or with a key."
        ),
    ] = None,
    no_wait: NoWait = False,
) -> None:
    """Roll out a job file or a checkpoint.

    One replica at a time: each is READY before an old one drains. A revision whose first replica
    fails is given up, and the old replicas stay.
    """
    from tpuctl.cli.service.details import show_services
    from tpuctl.cli.shell import job_notices
    from tpuctl.operations.jobs.submit import JobRequest
    from tpuctl.operations.services import queries, submit

    runtime.refuse_other_project()
    if file is None and checkpoint is None:
        raise UsageError(
            "nothing to roll out",
            hint=f"give FILE or --checkpoint: tpuctl service update {name} FILE",
        )
    request = None
    if file is not None:
        request = JobRequest(file, None, runtime.shared.zone, tuple(include or ()))
    planned = job_notices.result_of(runtime, submit.plan_update(runtime, name, request, checkpoint))
    revision = planned.draft.revision
    for what, before, after in planned.changes:
        runtime.output.note(f"{what}: {before} -> {after}")
    runtime.output.note(submit.price_text(revision, planned.draft.job.zones))
    job_notices.add_service_note(runtime, name)
    record = job_notices.result_of(runtime, submit.update_service(runtime, planned))
    runtime.output.note(submit.rollout_text(record, revision.number))
    if not no_wait:
        job_notices.result_of(runtime, submit.wait_until_rolled_out(runtime, name, revision.number))
    view = job_notices.result_of(runtime, queries.load_service(runtime, name))
    show_services(runtime.output, [view])
    job_notices.show_supervision(runtime, queries.check_other_owner(runtime, view.record))


@app.verb("delete")
def delete(runtime: Runtime, name: ServiceName, yes: Yes = False, no_wait: NoWait = False) -> None:
    """Delete a service and its slices.

    Its replicas finish their requests first, for at most serve.drain_s.
    """
    from tpuctl.cli.shell import job_notices
    from tpuctl.cli.shell.tables.values import Usd
    from tpuctl.operations.services import delete as deletion
    from tpuctl.operations.services import queries

    runtime.refuse_other_project()
    view = job_notices.result_of(runtime, queries.load_service(runtime, name))
    usd, count = view.usd_per_hour, len(view.running)
    price = "" if usd is None else f" at {Usd(usd)} USD/h"
    replicas = f"{count} replica{'s' * (count != 1)}"
    place = f"context {runtime.context.name!r}"
    runtime.confirm(f"Delete service {name} with {replicas}{price} in {place}?", yes=yes)
    runtime.on_interrupt[:] = [f"service {name} is being deleted; look with: tpuctl service list"]
    job_notices.result_of(runtime, deletion.delete_service(runtime, name))
    job_notices.show_supervision(runtime, queries.check_other_owner(runtime, view.record))
    if not no_wait:
        job_notices.result_of(runtime, deletion.wait_until_deleted(runtime, name))
    runtime.output.note(f"{'deleting' if no_wait else 'deleted'} service {name}")
