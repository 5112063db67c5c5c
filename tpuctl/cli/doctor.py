"""`tpuctl doctor`: what is missing here, in the project, for a node or for a job."""

import shlex
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Annotated, NamedTuple

import typer

from tpuctl.cli.shell.options import Yes, completed_by
from tpuctl.cli.shell.output import window_width, wrap
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.fit import GAP, TEXT_WIDTH
from tpuctl.cli.shell.tables.grid import styled
from tpuctl.cli.shell.tables.listing import Listing
from tpuctl.cli.shell.tables.values import Columns, attributes, printable
from tpuctl.errors import UsageError
from tpuctl.models.health import HealthCheck, HealthState
from tpuctl.operations.health import fixes
from tpuctl.operations.health.doctor import exit_code_of, run_checks
from tpuctl.operations.health.examination import Examination, examination_of

_KEYS: Columns[HealthCheck] = {
    **attributes(check="name", state="state.value"),
    **attributes("evidence", "fix", "is_safe"),
}
LINE = Listing(_KEYS, table={name: name for name in _KEYS if name != "is_safe"})
"""One line as a JSON object, whose keys are public; a note counts the safe fixes for people."""
INDENT = max(map(len, HealthState)) + 2
"""Where the names of checks begin, and their fixes."""
LEAST_EVIDENCE = 40
"""Columns for it beside the name; in a window with fewer it stands below."""
NAME_END = INDENT + 28
"""Where the evidence begins."""


class Wanted(NamedTuple):
    """What is to be checked: without a name this machine, the context and its cloud."""

    name: str | None
    is_job: bool
    is_node: bool


def doctor(
    runtime: Runtime,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="A job (its id, or its name) or a node, in place of machine and context.",
            autocompletion=completed_by("job or node"),
        ),
    ] = None,
    job: Annotated[bool, typer.Option("--job", help="The job of that name.")] = False,
    node: Annotated[bool, typer.Option("--node", help="The node of that name.")] = False,
    fix: Annotated[
        bool, typer.Option("--fix", help="Run the fixes that are safe, after asking once.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Check this machine, the context and its cloud: each line with its evidence and its fix.

    With a name it checks a job or a node.

    \b
        pass     as it should be
        warn     work goes on, and something will cost time or money
        fail     some command cannot work before this is mended
        unknown  it could not be asked

    Without --fix it starts nothing and changes one thing at most: where it logs in to a node with
    OS Login, it puts tpuctl's public key into your account. All checks answer within 10 s.
    """
    if job and node:
        raise UsageError("--job and --node exclude each other", hint="give one of them")
    if (job or node) and name is None:
        raise UsageError("--job and --node are about a NAME", hint="give the name")
    wanted = Wanted(name, is_job=job, is_node=node)
    is_final = not fix or runtime.output.is_table
    lines = _examine(runtime, wanted, runtime.began_s, is_shown=is_final)
    safe = fixes.safe_fixes(lines)
    if fix and safe:
        _run_fixes(runtime, safe, yes=yes)
        lines = _examine(runtime, wanted, time.monotonic())
    elif not is_final:
        runtime.output.items(lines, LINE)
    elif safe:
        command = shlex.join(["tpuctl", "doctor", *([name] if name else []), "--fix"])
        count = _count_text(len(safe), "of the fixes is", "of the fixes are")
        runtime.output.note(f"{count} safe; run: {command}")
    if runtime.output.is_table:
        _show_sum(runtime, lines)
    raise typer.Exit(exit_code_of(lines))


def _examine(
    runtime: Runtime, wanted: Wanted, began_s: float, *, is_shown: bool = True
) -> list[HealthCheck]:
    """Run the checks and show their lines: on a terminal each as it comes."""
    with _examination(runtime, wanted, began_s) as examination:
        lines = map(partial(_typed, runtime), run_checks(examination.checks, examination.scope))
        if is_shown and runtime.output.is_screen:
            return list(_show_each(runtime, lines))
        found = list(lines)
    if is_shown:
        runtime.output.items(found, LINE)
    return found


def _typed(runtime: Runtime, line: HealthCheck) -> HealthCheck:
    """The line with this command's --context in its fix, which is typed or run without looking."""
    return replace(line, fix=runtime.output.typed(line.fix)) if line.fix else line


def _examination(
    runtime: Runtime, wanted: Wanted, began_s: float
) -> AbstractContextManager[Examination]:
    if wanted.name is None:
        return examination_of(runtime, began_s)
    runtime.supervisor_warned = True  # a line says so, within the deadline
    # It loads what explain needs: half a second that the others need not pay.
    from tpuctl.operations.health.target_examination import examination_of_target

    return nullcontext(
        examination_of_target(
            runtime,
            wanted.name,
            began_s=began_s,
            zone=runtime.shared.zone,
            is_job=wanted.is_job,
            is_node=wanted.is_node,
        )
    )


def _show_each(runtime: Runtime, lines: Iterable[HealthCheck]) -> Iterator[HealthCheck]:
    """Show lines in three columns; in a narrow window the evidence stands below the name."""
    from rich.console import Console
    from rich.text import Text

    console = Console(file=runtime.out, highlight=False, soft_wrap=True)
    is_narrow = window_width() < NAME_END + LEAST_EVIDENCE
    margin = INDENT if is_narrow else NAME_END
    for line in lines:
        head, name = Text.assemble(styled(line.state.value)), printable(line.name)
        head.pad_right(INDENT - len(head))
        first, *rest = wrap(printable(line.evidence), max(TEXT_WIDTH, window_width() - margin))
        if is_narrow or len(name) > NAME_END - INDENT - GAP:
            rest.insert(0, first)
            console.print(head.append(name, "bold"))
        else:
            console.print(head.append(name, "bold").append(f"{'':{margin - len(head)}}{first}"))
        for part in rest:
            runtime.output.line(f"{'':{margin}}{part}")
        if line.fix and line.state != HealthState.PASS:
            runtime.output.line(f"{'':{INDENT}}run: {printable(line.fix)}")
        yield line


def _run_fixes(runtime: Runtime, commands: list[str], *, yes: bool) -> None:
    """Show the commands, ask once, run each; one that fails is named and the rest goes on."""
    for command in commands:
        runtime.output.note(f"fix: {command}")
    runtime.confirm(f"Run {_count_text(len(commands), 'fix', 'fixes')}?", yes=yes)
    for command in commands:
        status = fixes.run_fix(command, runtime.environ)
        if status:
            runtime.output.warn(f"exit status {status}: {command}")


def _show_sum(runtime: Runtime, lines: Iterable[HealthCheck]) -> None:
    counts = Counter(line.state for line in lines)
    listed = [f"{counts[state]} {state}" for state in HealthState if counts[state]]
    runtime.output.note(", ".join(listed))


def _count_text(count: int, one: str, more: str) -> str:
    return f"{count} {one if count == 1 else more}"
