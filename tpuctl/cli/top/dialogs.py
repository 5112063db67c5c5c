"""What stands in front of the screen of `tpuctl top`: help, a question, one worker's numbers."""

from typing import Any, ClassVar

from rich.markup import escape
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from tpuctl.byte_size import size_text
from tpuctl.cli.shell.tables.values import printable
from tpuctl.cli.top.worker_row import WorkerRow

HELP = """\
[b]Keys[/b]

arrows, Tab   move; Tab changes the table
Enter         all numbers of the worker
s             sort by worker, by how busy the chips are, by step
/             show only rows with a text; Esc shows all again
m             mesh: duty cycle or HBM
l             a taller log
e             a shell on the worker
d             dump where the threads of its programs are; none is ended
x             cancel the job; it asks first
q             leave; jobs go on

[b]Chips[/b]

busy 83 %                a program is loaded
held, no program loaded  a process has them: tpuctl node free
free                     nobody has them
no answer since 12 s     the worker is silent

Esc closes this."""


UNITS = {"_percent": " %", "_us": " us", "_s": " s"}


class Dialog(ModalScreen[bool]):
    """A text in a box that Escape closes."""

    BINDINGS: ClassVar[list[Any]] = [
        Binding("escape,q,enter", "dismiss(False)", "close", show=False)
    ]

    def text(self) -> str:
        """What the box says."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """The box."""
        with VerticalScroll(id="dialog"):
            yield Static(self.text())


class Help(Dialog):
    """What each key does."""

    def text(self) -> str:
        """The list of keys."""
        return HELP


class PlainText(Dialog):
    """What a program has printed."""

    def __init__(self, printed: str) -> None:
        super().__init__()
        self.printed = printed

    def text(self) -> str:
        """Its lines; what looks like markup is none."""
        return escape("\n".join(map(printable, self.printed.split("\n"))))


class Confirmation(Dialog):
    """A question that only `y` answers with yes."""

    BINDINGS: ClassVar[list[Any]] = [
        Binding("y", "dismiss(True)", "yes", show=False),
        Binding("n,escape,enter,q", "dismiss(False)", "no", show=False),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self.question = question

    def text(self) -> str:
        """The question."""
        return f"{self.question}\n\n\\[y] yes   \\[n] no"


class WorkerDetails(Dialog):
    """Every number of a worker, as it was when the box was opened."""

    def __init__(self, row: WorkerRow) -> None:
        super().__init__()
        self.row = row

    def text(self) -> str:
        """The numbers by their names."""
        worker = self.row.worker
        values: dict[str, list[str]] = {}
        for name, value in sorted(worker.sample.values.items() if worker.sample else ()):
            values.setdefault(name.partition("/")[0], []).append(number_text(name, value))
        if worker.report is not None:
            for key, printed in worker.report.metrics.items():
                values[f"program.{key}"] = [escape(printable(str(printed)))]
        title = f"[b]worker {worker.worker_id} of {self.row.watched.name}[/b]\n"
        lines = [f"{name:<36} {'  '.join(shown)}" for name, shown in values.items()]
        return "\n".join([title, *lines])


def number_text(name: str, value: float) -> str:
    """A number with the unit that its name ends in."""
    bare = name.partition("/")[0]
    if bare.endswith("_bytes"):
        return size_text(value)
    if bare.endswith("_bytes_per_s"):
        return f"{size_text(value)}/s"
    unit = next((unit for end, unit in UNITS.items() if bare.endswith(end)), "")
    return f"{value:.4g}{unit}"
