"""`tpuctl job lint FILE...`: are job files right?"""

from pathlib import Path
from typing import Annotated

import typer

from tpuctl.byte_size import count_text
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.values import attributes
from tpuctl.errors import UsageError

COLUMNS = attributes("file", "error", "hint")


def lint(
    runtime: Runtime,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="The job files.")],
) -> None:
    """Check job files as a submission does, and make no request.

    Prints a line for each file that is wrong, with its first error.
    """
    from tpuctl.operations.jobs import job_file_errors

    errors = job_file_errors.find_errors(files, runtime.environ)
    if runtime.output.is_table:
        for each in errors:
            runtime.output.line(f"{each.file}: {each.error}")
    else:
        runtime.output.items(errors, COLUMNS)
    if errors:
        raise UsageError(f"{len(errors)} of {count_text(len(files), 'job file')} cannot be used")
