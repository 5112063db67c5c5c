"""The command tree, and the one place where errors become a line, a hint and an exit code."""

import errno
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.exceptions import Abort, Exit, TyperException

from tpuctl import __version__
from tpuctl.cli.shell.help import other_tools
from tpuctl.cli.shell.options import TABLE, Verb, load_command, shared_options
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.errors import DeadlineError, LocalIOError, TpuctlError, UsageError

COMPLETION_VARIABLE = "_TPUCTL_COMPLETE"
INTERRUPTED = 130
TERMINATED = 143
DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT)

COMMANDS = {
    "node": ("node.group:app", "Create, use and delete nodes (TPU slices)."),
    "queued-resource": (
        "queued_resource:app",
        "Request slices that wait for capacity (alias: qr).",
    ),
    "job": ("job.group:app", "Run programs on every worker of a slice."),
    "service": ("service.group:app", "Replicas of a model that answer requests."),
    "data": ("data.group:app", "Copy data to and from Cloud Storage and workers."),
    "checkpoint": (
        "checkpoint.group:app",
        "List, verify, copy and prune checkpoints.",
    ),
    "catalog": (
        "catalog:app",
        "Types, zones, runtime versions, prices and public models.",
    ),
    "context": ("context:app", "Projects, zones and credentials to work with."),
    "local": ("local.group:app", "The cloud in a box: rehearse everything offline."),
    "supervisor": ("supervisor:app", "Look after the jobs of a context."),
    "run": ("job.submit:run", "Submit a job, follow it, tear its slice down."),
    "predict": ("job.predict:predict", "Predict files of a bucket, each row once."),
    "serve": ("serve:serve", "One address in front of the replicas of a service."),
    "top": ("top.top:top", "Watch jobs and nodes: chips, hosts, steps, logs, money."),
    "dashboard": (
        "dashboard.dashboard:dashboard",
        "Jobs and nodes in the browser of this machine.",
    ),
    "plan": ("plan.group:app", "Which slice a model needs, for how long, at what cost."),
    "bench": ("bench.group:app", "Measure the chips of a node, or a server under load."),
    "capacity": ("capacity:capacity", "Where a type can be had: quota, refusals, prices."),
    "explain": ("explain:explain", "Say what is wrong with a job or a node."),
    "doctor": ("doctor:doctor", "Find what is missing, and the command that mends it."),
    "sweep": ("sweep:sweep", "Find what ended jobs left behind, and what it costs."),
    "history": ("history:history", "Who ran what here, and how it ended."),
    "cost": ("cost.cost:cost", "What all slices have cost, by job, label, owner, day."),
    "rehearse": (
        "rehearse.rehearse:rehearse",
        "Prove that a job survives preemption, before it is paid.",
    ),
    "record": ("record:record", "Run a command and record its Cloud TPU API traffic."),
    "quickstart": (
        "local.quickstart:run_quickstart",
        "Watch a job lose its slice and come back.",
    ),
    "help": ("help:show", "Show the help of a command, or a page of the documentation."),
}
LISTS = frozenset({"cost", "history"})
"""Commands without a noun whose result is a list."""
ALIASES = {"qr": "queued-resource"}


class Interrupted(Exception):
    """Carries Ctrl-C or SIGTERM through Typer to `main`."""


class LazyGroup(TyperGroup):
    """The root command, which knows every noun by name and imports only the one that is used."""

    def __init__(self, *args: Any, params: list[Any] | None = None, **extra: Any) -> None:
        super().__init__(*args, params=[*(params or []), *shared_options()], **extra)
        for name, (_, text) in COMMANDS.items():
            self.commands.setdefault(name, TyperGroup(name=name, help=text))

    def invoke(self, ctx: Any) -> Any:
        """Run the command; Typer by itself exits with other codes on Ctrl-C or a closed pipe."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            raise Interrupted from stop
        except UnicodeEncodeError as error:  # bytes of the command line, which nobody can send
            raise UsageError(f"{error.object[:100]!r} is not UTF-8") from error
        except BrokenPipeError:
            raise Exit(0) from None  # the reader of our output has seen enough, as `head` does
        except OSError as error:
            if error.errno not in DISK_FULL_ERRNOS:
                raise
            raise LocalIOError("cannot write: no space is left") from error

    def _main_shell_completion(self, *args: Any, **extra: Any) -> None:
        """Answer the shell when it asks what a word may be."""
        if COMPLETION_VARIABLE in os.environ:
            from tpuctl.cli.shell.completion import shells

            shells.answer(lambda: super(LazyGroup, self)._main_shell_completion(*args, **extra))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by purpose, and the options that only the root has."""
        from tpuctl.cli.shell.help import layout, sections

        layout.write_sections(self, ctx, formatter, sections.ROOT)
        layout.write_options(self, ctx, formatter, (f"{name}_option" for name, _, _ in TABLE))
        formatter.write_text("The first job, step by step: tpuctl help first-job")

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the module of the noun in `args`, for shell completion too.

        `help node create` is `node create --help`, unless a manual page is wanted. Raises
        UsageError for the command of another tool, with the one of tpuctl.
        """
        is_help = args[:1] == ["help"] and "--man" not in args
        if is_help and args[1:] and ALIASES.get(args[1], args[1]) in COMMANDS:
            args = [*args[1:], "--help"]
        if args:
            args = [ALIASES.get(args[0], args[0]), *args[1:]]
        is_typed = not ctx.resilient_parsing
        if is_typed and args and args[0] not in COMMANDS:
            _refuse_command_of_another_tool(args)
        if args and args[0] in COMMANDS:
            place, _ = COMMANDS[args[0]]
            kind: type[Verb] = Verb
            if args[0] in LISTS:
                from tpuctl.cli.shell.tables.list_verb import ListVerb

                kind = ListVerb
            self.commands[args[0]] = load_command(args[0], place, kind)
        return super().resolve_command(ctx, args)


def _refuse_command_of_another_tool(args: Sequence[str]) -> None:
    """Raise UsageError with the command that is meant, where it is known."""
    if meant := other_tools.command_for(args):
        raise UsageError(f"there is no command {args[0]!r}", hint=f"run: {meant}")
    programs = [Path(word) for word in args[:2] if word.endswith(".py")]
    if programs and programs[0].is_file():
        from tpuctl.operations.jobs.submit import refuse_program

        refuse_program(programs[0])


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Cloud TPU slices, data, jobs and checkpoints from a terminal.",
)


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"tpuctl {__version__}\n")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Cloud TPU slices, data, jobs and checkpoints from a terminal."""


def main(argv: Sequence[str] | None = None, runtime: Runtime | None = None) -> int:
    """Run one command and return its exit code."""
    runtime = runtime or Runtime()
    try:
        code = _exit_code(argv, runtime)
        if "context" in runtime.__dict__ and code not in (INTERRUPTED, TERMINATED):
            from tpuctl.cli.shell import supervisor_warning

            supervisor_warning.warn_of_unsupervised_jobs(runtime)
        return code
    finally:
        runtime.close()


def _exit_code(argv: Sequence[str] | None, runtime: Runtime) -> int:
    try:
        code = app(args=argv, obj=runtime, standalone_mode=False, prog_name="tpuctl")
        return code if isinstance(code, int) else 0
    except TpuctlError as error:
        if runtime.shared.debug:
            raise
        if isinstance(error, DeadlineError):
            error.hint = error.hint or "; ".join(runtime.on_interrupt) or None
        with suppress(BrokenPipeError):
            runtime.output.failure(error)
        return error.exit_code
    except TyperException as error:
        if error.format_message().startswith("Usage: "):  # a noun without a verb
            runtime.err.write(error.format_message() + "\n")
        else:
            runtime.output.failure(_usage(error))
        return UsageError.exit_code
    except Exit as stop:
        return stop.exit_code
    except (Abort, Interrupted) as stop:
        with suppress(BrokenPipeError):  # nobody reads what goes on
            runtime.output.interrupted(runtime.on_interrupt)
        return TERMINATED if isinstance(stop.__cause__, Terminated) else INTERRUPTED


class Terminated(KeyboardInterrupt):
    """SIGTERM: ends a command as Ctrl-C does, with its own exit code."""


def terminate(_number: int, _frame: FrameType | None) -> None:
    """The handler of SIGTERM."""
    raise Terminated


def install_signals() -> None:
    """Make SIGTERM end commands in an orderly way, unless whoever started us wants it ignored."""
    if signal.getsignal(signal.SIGTERM) != signal.SIG_IGN:
        signal.signal(signal.SIGTERM, terminate)


def _usage(error: TyperException) -> UsageError:
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "tpuctl"
    option = getattr(error, "option_name", None) or ""
    hint = other_tools.option_hint(command, option) or f"run: {command} --help"
    return UsageError(error.format_message().rstrip("."), hint=hint)
