"""The files that a rehearsal writes for others: CI, a browser, a page that shows its badge."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from tpuctl.errors import LocalIOError
from tpuctl.models.rehearsal.verdict import RehearsalReport

JunitFile = Annotated[
    Path | None,
    typer.Option("--junit", metavar="FILE", help="Write JUnit XML: a test case for each moment."),
]
HtmlFile = Annotated[
    Path | None,
    typer.Option(
        "--html", metavar="FILE", help="Write one HTML page with a picture of each moment."
    ),
]
SummaryFile = Annotated[
    Path | None,
    typer.Option(
        "--summary", metavar="FILE", help="Append Markdown, as GITHUB_STEP_SUMMARY wants it."
    ),
]
BadgeFile = Annotated[
    Path | None,
    typer.Option("--badge", metavar="FILE", help="Write an SVG badge: survives preemption 12/12."),
]


@dataclass(frozen=True, slots=True)
class ReportFiles:
    """Where each form of the report goes; None: it is not written."""

    junit: Path | None = None
    html: Path | None = None
    summary: Path | None = None
    badge: Path | None = None

    def named(self) -> Iterator[Path]:
        """The files that are to be written."""
        return filter(None, (self.junit, self.html, self.summary, self.badge))


def require_folders(files: ReportFiles) -> None:
    """Raise LocalIOError, before an hour is spent, for a file that cannot be written."""
    for path in files.named():
        if path.is_dir():
            raise LocalIOError(f"{path} is a directory", hint="name a file in it")
        if not path.absolute().parent.is_dir():
            folder = path.absolute().parent
            raise LocalIOError(
                f"the directory of {path} does not exist", hint=f"run: mkdir -p {folder}"
            )


def write_files(files: ReportFiles, report: RehearsalReport, *, began_s: float) -> list[Path]:
    """Write every form of the report that has a file; returns the files. Raises LocalIOError.

    The summary is appended to what is there, as those of other steps are.
    """
    from tpuctl.cli.rehearse.badge import badge_svg
    from tpuctl.cli.rehearse.html_report import html_text
    from tpuctl.cli.rehearse.junit_xml import junit_text
    from tpuctl.cli.rehearse.step_summary import summary_markdown

    forms: tuple[tuple[Path | None, str, Callable[[], str]], ...] = (
        (files.junit, "w", lambda: junit_text(report, began_s=began_s)),
        (files.html, "w", lambda: html_text(report, began_s=began_s)),
        (files.summary, "a", lambda: summary_markdown(report)),
        (files.badge, "w", lambda: badge_svg(report)),
    )
    for path, mode, text in forms:
        if path is not None:
            _write(path, mode, text())
    return list(files.named())


def _write(path: Path, mode: str, text: str) -> None:
    try:
        with path.open(mode, encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise LocalIOError(f"cannot write {path}: {error.strerror}") from error
