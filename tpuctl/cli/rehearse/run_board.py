"""The runs of a rehearsal as they stand, and the table of them that a terminal shows."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tpuctl.byte_size import count_text
from tpuctl.cli.rehearse.verdict_texts import GOOD, seconds_text
from tpuctl.cli.shell.options import Shared
from tpuctl.cli.shell.output import Output, window_width, wrap
from tpuctl.cli.shell.progress_display import TerminalPage, show_page
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.listing import Listing
from tpuctl.models.rehearsal.verdict import Judgement
from tpuctl.operations.rehearse.events import (
    MomentJudged,
    MomentsPlanned,
    ReferenceJudged,
    RehearsalEvent,
    RunProgressed,
    RunStarted,
)

if TYPE_CHECKING:
    from rich.text import Text

ROWS_AROUND = 4
"""Lines of the window that are not runs: two above, one below, and the cursor's."""
FEWEST_ROWS = 3
REFERENCES = ("reference", "reference-2")


@dataclass
class BoardRow:
    """One run as the table shows it."""

    name: str
    began_s: float
    state: str = "QUEUED"
    step: int = 0
    attempt: int = 1
    ended_s: float | None = None
    judgement: Judgement | None = None


@dataclass
class RunBoard:
    """All runs that have begun, changed by the events of the rehearsal."""

    now: Callable[[], float]
    job: str = ""
    rows: dict[str, BoardRow] = field(default_factory=dict)
    planned: int = 0
    steps: int = 0
    began_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.began_s = self.now()

    def note(self, event: RehearsalEvent) -> None:
        """Take an event in."""
        match event:
            case RunStarted(name):
                self.rows[name] = BoardRow(name, self.now())
            case RunProgressed(name, state, step, attempt) if name in self.rows:
                row = self.rows[name]
                row.state, row.step, row.attempt = state, step, attempt
            case ReferenceJudged(verdict):
                self.steps = verdict.steps
                for name in REFERENCES:
                    self._end(name, verdict.judgement)
            case MomentsPlanned(moments):
                self.planned = len(moments)
            case MomentJudged(verdict):
                self._end(verdict.moment.name, verdict.judgement)
            case _:
                pass

    def _end(self, name: str, judgement: Judgement) -> None:
        if name in self.rows:
            row = self.rows[name]
            row.ended_s, row.judgement = self.now(), judgement

    def ordered(self) -> list[BoardRow]:
        """Those that run, then those that did not pass, then those that did, the newest first."""
        rows = list(self.rows.values())
        running = [row for row in rows if row.judgement is None]
        ended = [row for row in reversed(rows) if row.judgement is not None]
        return [*running, *sorted(ended, key=lambda row: row.judgement in GOOD)]

    def heading(self) -> str:
        """How far the rehearsal is, on one line."""
        moments = [row for row in self.rows.values() if row.name not in REFERENCES]
        counts = Counter(row.judgement in GOOD for row in moments if row.judgement)
        running = sum(row.judgement is None for row in self.rows.values())
        if not self.planned:
            done = "two undisturbed runs first"
        else:
            done = f"{counts.total()} of {count_text(self.planned, 'moment')}"
        parts = [done, f"{running} running"]
        if counts[True]:
            parts.append(f"{counts[True]} passed")
        if counts[False]:
            parts.append(f"{counts[False]} did not pass")
        return f"{', '.join(parts)}; {seconds_text(self.now() - self.began_s)}"

    def table(self) -> Listing[BoardRow]:
        """The columns of the table."""
        return Listing(
            {
                "run": lambda row: row.name,
                "verdict": lambda row: row.judgement.upper() if row.judgement else None,
                "state": lambda row: row.state,
                "step": self._step,
                "attempt": lambda row: row.attempt,
                "time": lambda row: seconds_text((row.ended_s or self.now()) - row.began_s),
            },
            least=("attempt", "time"),
        )

    def _step(self, row: BoardRow) -> str:
        return f"{row.step}/{self.steps}" if self.steps else str(row.step)


def board_text(board: RunBoard, height: int) -> "Text":
    """The heading and as many runs as a window of that many lines has room for."""
    from rich.text import Text

    page = TerminalPage()
    rows = board.ordered()
    head = wrap(board.heading(), window_width())
    room = max(height - ROWS_AROUND - len(head), FEWEST_ROWS)
    Output(Shared(), page, page, board.now).items(rows[:room], board.table())
    more = [f"… and {count_text(len(rows) - room, 'more run')}"] if len(rows) > room else []
    return Text.from_ansi("\n".join([*head, page.getvalue().rstrip("\n"), *more]).strip("\n"))


@contextmanager
def show_board(runtime: Runtime, board: RunBoard) -> Iterator[None]:
    """Keep the table of the runs on the terminal up to date; at the end it is gone."""
    with show_page(runtime, lambda height: board_text(board, height)):
        yield
