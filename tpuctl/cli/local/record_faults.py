"""`tpuctl local record-faults`: what went wrong in a local cloud, as a scenario to replay it."""

from pathlib import Path
from typing import Annotated

import typer

from tpuctl.cli.local.cloud_option import Name, running_cloud_line
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.config import DEFAULT_CONTEXT
from tpuctl.errors import LocalIOError
from tpuctl.operations.local import local_cloud, recorded_faults


def record_faults(
    runtime: Runtime,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-O", metavar="FILE", help="Where to; else it is printed."),
    ] = None,
    name: Name = DEFAULT_CONTEXT,
) -> None:
    """Record what went wrong in a local cloud, to replay it.

    The result is a scenario. Its timeline preempts the same slices, and begins and ends the same
    faults, at the same requests of the program to Cloud Storage.

    Replay it with: tpuctl local up --name again --scenario FILE
    """
    import yaml

    control = local_cloud.control_api(running_cloud_line(runtime, name))
    recording = recorded_faults.record_faults(control)
    text = yaml.safe_dump(dict(recording.scenario), sort_keys=False, width=1000)
    if file is None:
        runtime.output.line(text.removesuffix("\n"))
    else:
        _write(file, text)
    count = len(recording.scenario["timeline"])
    runtime.output.note(f"{count} {'entry' if count == 1 else 'entries'} in the timeline")
    if not recording.knows_requests:
        runtime.output.note(
            "its requests are not logged, so entries wait for times alone; to log them run: "
            "tpuctl local up --log-requests"
        )


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, "utf-8")
    except OSError as error:
        raise LocalIOError(f"cannot write {file}: {error.strerror}") from error
