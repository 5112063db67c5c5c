"""`tpuctl quickstart`: the whole story, for real, on this machine."""

import asyncio
import io
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Annotated, TextIO

import typer

from tpuctl.byte_size import count_text
from tpuctl.cli.job.log_output import line_printer
from tpuctl.cli.shell.options import Shared
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.values import Usd
from tpuctl.config import DEFAULT_CONTEXT
from tpuctl.errors import RefusedError, class_by_exit_code
from tpuctl.models.job import JobRecord
from tpuctl.models.job_log import LogLine
from tpuctl.operations.local import local_cloud, quickstart, templates
from tpuctl.operations.local.quickstart import (
    QuickstartPlan,
    QuickstartState,
    QuickstartSummary,
)

LOG_EVERY_STEPS = 50
SECTIONS = {
    "local up": "A cloud in a box starts on this machine",
    "qr create": "A slice of 16 chips is requested, and becomes ACTIVE",
    "data push": "Handwritten digits go to a bucket",
    "job submit": "A network trains on all workers",
    "local preempt": "The slice is preempted without notice",
    "checkpoint list": "The job comes back from its last complete checkpoint",
    "run": "The network reads digits that it has never seen",
    "qr delete": "Everything is deleted",
}
"""The part of the story that begins with a command."""


def run_quickstart(
    runtime: Runtime,
    seed: Annotated[int, typer.Option(metavar="N", help="Decides when the slice is taken.")] = 0,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the local cloud and its bucket running.")
    ] = False,
) -> None:
    """Train on a slice, lose it, get it back, predict, clean up: about half a minute."""
    _refuse_other_contexts(runtime)
    quickstart.remove_old_simulator(runtime.home)
    # In JSON stdout holds the summary alone.
    stream = runtime.out if runtime.output.is_table else runtime.err
    screen = QuickstartDisplay(runtime, stream, stream)
    with _clean_up_at_end(screen, keep=keep):
        found = _run_steps(runtime, screen, seed, keep=keep)
    _show(runtime, found)


def _refuse_other_contexts(runtime: Runtime) -> None:
    chosen = runtime.context_name
    named = chosen.source != "config.yaml" and chosen.value != DEFAULT_CONTEXT
    if named and chosen.value != quickstart.LOCAL_CLOUD:
        raise RefusedError(
            f"the quickstart runs on a local cloud of its own, not on context {chosen.value!r} "
            f"({chosen.source})",
            hint="run: tpuctl -c local quickstart",
        )


def _run_steps(
    runtime: Runtime, screen: "QuickstartDisplay", seed: int, *, keep: bool
) -> QuickstartSummary:
    """Run the steps of the quickstart; returns their figures."""
    story = QuickstartState(began_s=runtime.now())
    screen.command(["local", "up", "--name", quickstart.LOCAL_CLOUD])
    own = Runtime(shared=Shared(context=quickstart.LOCAL_CLOUD), environ=runtime.environ)
    template = templates.template_folder("digits")
    bucket = own.context.bucket
    planned = quickstart.load_plan(template, bucket, runtime.environ, seed)
    quickstart.prepare(screen.command, planned, own.context, story)
    asyncio.run(_train(screen, planned, own, story))
    found = quickstart.predict(screen.command, planned, own.outside, story)
    if not keep:
        quickstart.tear_down(screen.command, own.outside, story)
    own.close()
    return quickstart.summary(story, found, planned, own.context.zone)


async def _train(
    screen: "QuickstartDisplay", planned: QuickstartPlan, own: Runtime, story: QuickstartState
) -> None:
    with screen.bar(planned.steps) as advance:
        show = line_printer(Runtime(out=screen.stream, environ=screen.runtime.environ))
        async for item in quickstart.train(screen.command, planned, own.outside, story):
            if step := quickstart.logged_step(item):
                advance(step)
            if isinstance(item, JobRecord):
                screen.write(f"job {item.job_id}: {item.state}: {item.status_text}\n")
            elif _is_worth_showing(item, planned):
                show(item)


def _is_worth_showing(line: LogLine, planned: QuickstartPlan) -> bool:
    """Whether a log line is shown: all but most of the steps, which four workers log each."""
    if not line.text.startswith("step="):
        return True
    step = int(line.text.split()[0].removeprefix("step="))
    return step % LOG_EVERY_STEPS == 0 or abs(step - planned.preempt_step) <= 1


class AboveBarStream(io.StringIO):
    """A stream whose whole lines appear above the progress bar.

    Results go to one that is a terminal, messages to one that is not: a second bar cannot be drawn.
    """

    def __init__(self, show: Callable[..., None], *, is_terminal: bool) -> None:
        super().__init__()
        self._show = show
        self._is_terminal = is_terminal
        self._rest = ""

    def isatty(self) -> bool:
        """Whether tables and colours are shown."""
        return self._is_terminal

    def write(self, text: str) -> int:
        """Show the lines that are whole."""
        from rich.text import Text

        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            is_whole = self._is_terminal or "tpuctl " in line  # a row, or a command to copy
            self._show(Text.from_ansi(line), soft_wrap=is_whole)
        return len(text)


@dataclass
class QuickstartDisplay:
    """Shows commands, log lines and, on a terminal, a progress bar below them."""

    runtime: Runtime
    stream: TextIO
    messages: TextIO

    def write(self, text: str) -> None:
        """Write text to the stream at once."""
        self.stream.write(text)
        self.stream.flush()

    def command(self, argv: Sequence[str]) -> None:
        """Show a command line, and run it as a user would in the quickstart's own context."""
        from tpuctl.cli.app import INTERRUPTED, TERMINATED, Terminated, main

        if title := SECTIONS.get(" ".join(argv[:2])) or SECTIONS.get(argv[0]):
            self._section(title)
        self.write(f"\n$ tpuctl -c {quickstart.LOCAL_CLOUD} {shlex.join(argv)}\n")
        nested = Runtime(
            shared=Shared(context=quickstart.LOCAL_CLOUD),
            out=self.stream,
            err=self.messages,
            environ=self.runtime.environ,
        )
        code = main(argv, nested)
        if code == TERMINATED:
            raise Terminated
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        if code:
            raise class_by_exit_code(code)(
                f"`tpuctl {shlex.join(argv)}` ended with exit code {code}"
            )

    def _section(self, title: str) -> None:
        if self.stream.isatty():
            from rich.console import Console
            from rich.text import Text

            self.write("\n")
            console = Console(file=self.stream, highlight=False)
            console.rule(Text(title, style="bold"), align="left", style="dim")
        else:
            self.write(f"\n--- {title}\n")

    @contextmanager
    def bar(self, steps: int) -> Iterator[Callable[[int], None]]:
        """Show a bar of steps below all other output; yields what sets the step."""
        if not self.stream.isatty() or self.runtime.shared.quiet:
            yield lambda _: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

        console, outer = Console(file=self.stream), self.stream
        columns = ("step", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True) as progress:
            self.stream = AboveBarStream(console.print, is_terminal=True)
            self.messages = AboveBarStream(console.print, is_terminal=False)
            task = progress.add_task("", total=steps)
            try:
                yield lambda step: progress.update(task, completed=step)
            finally:
                self.stream = self.messages = outer


@contextmanager
def _clean_up_at_end(screen: QuickstartDisplay, *, keep: bool) -> Iterator[None]:
    """Stop and delete the local cloud at the end, unless `keep` and nothing failed."""
    down = f"tpuctl local down --name {quickstart.LOCAL_CLOUD} --delete-state"
    kept = False
    try:
        yield
        kept = keep
    finally:
        if kept:
            screen.runtime.output.note(
                f"\nkept: tpuctl -c {quickstart.LOCAL_CLOUD} job list\nend it with: {down}"
            )
        else:
            screen.write(f"\n$ {down}\n")
            local_cloud.stop(screen.runtime.home, quickstart.LOCAL_CLOUD, delete_state=True)


def _show(runtime: Runtime, found: QuickstartSummary) -> None:
    if runtime.output.is_document:
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
        f"{count_text(found.preemptions, 'preemption')}: "
        f"{count_text(found.lost_steps, 'step')} lost\n"
        f"wall time     {found.wall_s:.1f} s here; a chip {found.chip_time_s:.4f} s (modelled)\n"
        f"cost          {Usd(found.cost_usd)} USD on Google Cloud "
        f"(spot list price of {found.price_date}); 0 here\n"
    )
