"""`tpuctl data mount`: a bucket as a directory, by gcsfuse."""

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from tpuctl.cli.shell.options import completed_by
from tpuctl.cli.shell.runtime import Runtime


def mount(
    runtime: Runtime,
    url: Annotated[
        str,
        typer.Argument(
            metavar="gs://BUCKET[/PREFIX]",
            help="What is mounted.",
            autocompletion=completed_by("url"),
        ),
    ],
    directory: Annotated[str, typer.Argument(metavar="DIR", help="An empty directory here.")],
    read_only: Annotated[bool, typer.Option("--read-only", help="Allow no changes.")] = False,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Stay until it is unmounted, or Ctrl-C.")
    ] = False,
) -> None:
    """Mount a bucket as a directory, with gcsfuse.

    A prefix of a bucket can be mounted as well.
    """
    from tpuctl.operations.stage.mounting import mount_bucket

    mount_bucket(runtime.context, url, directory, is_read_only=read_only, in_foreground=foreground)
    if foreground:
        return
    place = str(Path(directory).absolute())
    runtime.output.note(f"unmount it with: fusermount -u {quote(place)}")
    runtime.output.fields({"url": url, "directory": place})
