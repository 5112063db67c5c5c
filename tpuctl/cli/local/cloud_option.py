"""Which local cloud a command of `tpuctl local` means, and where it answers."""

from typing import Annotated

import typer

from tpuctl.cli.shell.options import completed_by
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.config import DEFAULT_CONTEXT
from tpuctl.errors import NotFoundError
from tpuctl.operations.local import local_cloud

Name = Annotated[
    str,
    typer.Option(
        "--name",
        metavar="NAME",
        help="Which local cloud.",
        autocompletion=completed_by("local cloud"),
    ),
]


def running_cloud_line(runtime: Runtime, name: str) -> dict[str, object]:
    """The endpoint line of a local cloud that runs; raises NotFoundError."""
    line = local_cloud.endpoint_line(runtime.home, name)
    if line is None:
        raise NotFoundError(
            f"there is no running local cloud {name!r}",
            hint=f"run: tpuctl local up{'' if name == DEFAULT_CONTEXT else f' --name {name}'}",
        )
    return dict(line)
