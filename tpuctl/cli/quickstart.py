"""`tpuctl quickstart`: the whole story, for real, on this machine."""

import asyncio
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from typing import Annotated, Any, TextIO

import typer

from tpuctl.cli.job_log import printer
from tpuctl.cli.options import Format, Shared, Verb
from tpuctl.cli.output import Usd
from tpuctl.cli.runtime import Runtime
from tpuctl.config import DEFAULT_CONTEXT
from tpuctl.errors import RefusedError, TpuctlError
from tpuctl.jobs import file as job_file
from tpuctl.jobs.ports import outside
from tpuctl.models.job import JobRecord, LogLine
from tpuctl.operations import local, quickstart, templates
from tpuctl.operations.quickstart import Plan, Progress, Story, Summary

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)

SUMMARY = {
    field.name: (lambda found, name=field.name: getattr(found, name))
    for field in fields(Summary)
    if field.name != "confusion"
}
LOG_EVERY_STEPS = 25


@app.command("quickstart", cls=Verb)
def run_quickstart(
    ctx: typer.Context,
    seed: Annotated[int, typer.Option(metavar="N", help="Decides when the slice is taken.")] = 0,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the local cloud and its bucket running.")
    ] = False,
) -> None:
    """Train on a simulated slice, lose it, get it back, predict, clean up: about half a minute."""
    runtime = ctx.ensure_object(Runtime)
    _refuse_other_contexts(runtime)
    quickstart.claim(runtime.home)
    with _ended(runtime, keep=keep):
        found = _tell(runtime, seed, keep=keep)
    _show(runtime, found)


def _refuse_other_contexts(runtime: Runtime) -> None:
    chosen = runtime.context_name
    named = chosen.source != "config.yaml" and chosen.value != DEFAULT_CONTEXT
    if named and chosen.value != quickstart.CLOUD:
        raise RefusedError(
            f"the quickstart runs on a local cloud of its own, not on context {chosen.value!r} "
            f"({chosen.source})",
            hint="run: tpuctl -c local quickstart",
        )


def _tell(runtime: Runtime, seed: int, *, keep: bool) -> Summary:
    """The story, command by command."""
    command = _commands(runtime)
    story = Story(began_s=runtime.now())
    command(["local", "up", "--name", quickstart.CLOUD])
    context = local.context(local.running(runtime.home, quickstart.CLOUD) or {})
    template = templates.folder("digits")
    spec = job_file.load(template / "job.yaml", bucket=context.bucket, environ=runtime.environ)
    planned = quickstart.plan(template, spec, seed)
    clients = outside(context, runtime.home)
    quickstart.prepare(command, planned, context, story)
    asyncio.run(_train(runtime, command, planned, clients, story))
    found = quickstart.predict(command, planned, clients, story)
    if not keep:
        quickstart.tear_down(command, clients, story)
    return quickstart.summary(story, found, planned, context.zone)


async def _train(
    runtime: Runtime, command: quickstart.Command, planned: Plan, clients: Any, story: Story
) -> None:
    narration = _narration(runtime)
    show = printer(Runtime(out=narration, err=runtime.err, environ=runtime.environ))
    with _step_bar(runtime, planned.steps) as advance:
        async for item in quickstart.train(command, planned, clients, story):
            if isinstance(item, Progress):
                advance(item.step)
            elif isinstance(item, JobRecord):
                narration.write(f"job {item.job_id}: {item.state}: {item.why}\n")
            elif _is_worth_showing(item, planned):
                show(item)
            narration.flush()


def _is_worth_showing(line: LogLine, planned: Plan) -> bool:
    """Every line but most of the steps: four workers log each of them."""
    if not line.text.startswith("step="):
        return True
    step = int(line.text.split()[0].removeprefix("step="))
    return step % LOG_EVERY_STEPS == 0 or abs(step - planned.preempt_step) <= 1


def _commands(runtime: Runtime) -> quickstart.Command:
    """Runs a command line as a user would, in the quickstart's own context, and shows it first."""
    from tpuctl.cli.app import main

    narration = _narration(runtime)

    def run(argv: Sequence[str]) -> None:
        narration.write(f"\n$ tpuctl -c {quickstart.CLOUD} {shlex.join(argv)}\n")
        narration.flush()
        nested = Runtime(
            shared=Shared(context=quickstart.CLOUD),
            out=narration,
            err=narration,
            environ=runtime.environ,
        )
        code = main(argv, nested)
        if code:
            raise TpuctlError(f"`tpuctl {shlex.join(argv)}` ended with exit code {code}")

    return run


@contextmanager
def _ended(runtime: Runtime, *, keep: bool) -> Iterator[None]:
    """Whatever happens, nothing is left running; unless it is to be kept and all went well."""
    done = False
    try:
        yield
        done = True
    finally:
        if keep and done:
            runtime.output.note(
                f"\nkept: tpuctl -c {quickstart.CLOUD} job list\n"
                f"end it with: tpuctl local down --name {quickstart.CLOUD} --delete-state"
            )
        else:
            _narration(runtime).write(
                f"\n$ tpuctl local down --name {quickstart.CLOUD} --delete-state\n"
            )
            quickstart.end(runtime.home)


def _narration(runtime: Runtime) -> TextIO:
    """In JSON stdout holds the summary alone."""
    return runtime.err if runtime.shared.output != Format.TABLE else runtime.out


@contextmanager
def _step_bar(runtime: Runtime, steps: int) -> Iterator[Callable[[int], None]]:
    if not runtime.err.isatty() or runtime.shared.quiet:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

    columns = ("step", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(file=runtime.err), transient=True) as progress:
        task = progress.add_task("", total=steps)
        yield lambda step: progress.update(task, completed=step)


def _show(runtime: Runtime, found: Summary) -> None:
    if runtime.shared.output in (Format.JSON, Format.YAML):
        runtime.output.document(asdict(found))
        return
    out = runtime.out
    out.write("\nheld-back digits, true (down) and predicted (across):\n")
    out.write("     " + "".join(f"{digit:>4}" for digit in range(10)) + "\n")
    for digit, row in enumerate(found.confusion):
        out.write(f"  {digit}  " + "".join(f"{n or '.':>4}" for n in row) + "\n")
    out.write(
        f"\naccuracy      {found.accuracy:.4f} on digits the network has never seen\n"
        f"steps         {found.steps}, resumed at {found.resume_step} after "
        f"{found.preemptions} preemption: {found.lost_steps} steps lost\n"
        f"wall time     {found.wall_s:.1f} s here; chips busy {found.chip_time_s:.4f} s (modelled)\n"
        f"cost          {Usd(found.cost_usd)} USD on Google Cloud "
        f"(spot list price of {found.price_date}); 0 here\n"
    )
