"""`tpuctl job exec` and `tpuctl job ssh`: the workers of the slices that a job has now."""

from typing import Annotated

import typer

from tpuctl.cli.node import exec as node_exec
from tpuctl.cli.node import ssh as node_ssh
from tpuctl.cli.node.exec import Argv, Group, Limit, Line, OnlyFailed, OutputDirectory, WorkerIds
from tpuctl.cli.shell.options import JobName, completed_by
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.operations.workers import targets
from tpuctl.operations.workers.targets import CommandTarget


def execute(
    runtime: Runtime,
    name: JobName,
    argv: Argv = None,
    command: Line = None,
    worker: WorkerIds = None,
    only_failed: OnlyFailed = False,
    group: Group = False,
    output_directory: OutputDirectory = None,
    timeout: Limit = None,
) -> None:
    """Run a command on the workers of a job.

    It runs beside the program, on the slices that the job has now.

    It is `tpuctl node exec` in all else: it gets no input, and ends with this command.
    """
    words = node_exec.command_words(f"job exec {name}", argv or [], command)
    options = node_exec.ExecOptions(worker, only_failed, group, output_directory, timeout)
    options.check(runtime)
    node_exec.execute_on(runtime, _target(runtime, name), words, options)


def ssh(
    runtime: Runtime,
    name: JobName,
    argv: Annotated[list[str] | None, typer.Argument(metavar="[-- COMMAND [ARG]...]")] = None,
    worker: Annotated[
        str,
        typer.Option(
            metavar="ID", help="Which worker of the job.", autocompletion=completed_by("worker")
        ),
    ] = "0",
) -> None:
    """Log in to a worker of a job.

    The worker belongs to the slices that the job has now; otherwise as `tpuctl node ssh`.

    A COMMAND of one word is a line for the login shell: -- 'cd run && tail -f log'.
    """
    look = f"run: tpuctl job describe {name}"
    node_ssh.require_no_option(argv or [], hint=look)
    node_ssh.log_in(runtime, _target(runtime, name).select(worker), argv or [])


def _target(runtime: Runtime, name: str) -> CommandTarget:
    return targets.job_target(
        runtime.store(), runtime.tpu, runtime.access, name, runtime.now(), runtime.sleep
    )
