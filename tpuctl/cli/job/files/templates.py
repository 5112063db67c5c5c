"""`tpuctl job templates` and `tpuctl job init`: a job to begin with."""

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from tpuctl.cli.shell.options import completed_by
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.values import attributes
from tpuctl.operations.local import local_cloud, templates

COLUMNS = attributes("name", "about")


def list_templates(runtime: Runtime) -> None:
    """List the templates of jobs that come with tpuctl.

    `tpuctl job init` writes one.
    """
    runtime.output.items(templates.list_templates(), COLUMNS, title="templates")


def init(
    runtime: Runtime,
    template: Annotated[
        str | None,
        typer.Argument(
            metavar="[TEMPLATE]",
            help="What `tpuctl job templates` lists; default: one that runs on the context.",
            autocompletion=completed_by("template"),
        ),
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Argument(metavar="[DIR]", help="Where to; default: a folder of the template's name."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
) -> None:
    """Write the files of a template.

    Program, job file and data, ready to be submitted.
    """
    name = template or templates.default_template(runtime.config, runtime.context_name.value)
    target = directory or Path(name)
    written = templates.write_template(name, target, force=force)
    runtime.output.items(written, {"path": str})
    runtime.output.note(f"for what it needs, read {target / templates.README}")
    if templates.needs_data(name):
        bucket = local_cloud.bucket_of(runtime.home, runtime.config, runtime.context_name.value)
        data = quote(str(target / templates.DATA))
        runtime.output.note(f"then run: tpuctl data push {data} gs://{bucket}/{templates.DATA}")
    runtime.output.note(f"then run: tpuctl job submit {written[0]} --dry-run")
