"""Pictures of the terminal for the guides: the screen of `tpuctl top`, and what commands print."""

import asyncio
import io
import re
import shlex
from pathlib import Path

from rich.console import Console
from rich.text import Text

from system.pictures.pseudo_terminal import frames
from system.pictures.watched_job import NAME
from system.stories.gang_cloud import Gangs
from tpuctl.cli.top.screen import TopScreen
from tpuctl.operations.metrics.slice_watch import watch

ROOT = Path(__file__).parents[3]
LOOKED_AT_S = 25.0
COLUMNS, ROWS = 100, 34
COMMANDS = {
    "explain": (COLUMNS, ("explain", NAME)),
    "job-describe": (COLUMNS, ("job", "describe", NAME)),
    "node-list": (120, ("node", "list")),
    "node-list-narrow": (80, ("node", "list")),
    "node-describe": (80, ("node", "describe", "n1", "--zone", "us-west4-a")),
}
"""Picture -> the width of the terminal, and the command whose output it is."""
SECTIONS = {
    "quickstart-begin": ("", "A network trains"),
    "quickstart-preemption": ("A network trains", "The network reads"),
    "quickstart-end": ("The network reads", ""),
}
"""Picture -> the headings of the quickstart between which it is; an empty one is the end."""
SHOWN = ("top", *COMMANDS, *SECTIONS, "data-push")
FILES, FILE_BYTES = 24, 8 * 2**20
_FONTS = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
Frames = list[list[str]]


def make(here: Gangs, folder: Path) -> None:
    """Write every picture of the terminal from a cloud where the watched job runs."""
    write(folder, "top", asyncio.run(top_picture(here)))
    for name, (columns, argv) in COMMANDS.items():
        *_, last = run(here, argv, columns)
        write(folder, name, picture(argv, last, columns))


def make_others(here: Gangs, folder: Path) -> None:
    """Write the pictures that need no watched job, and create the nodes that others show."""
    create = ("node", "create", "--spot", "--zone", "us-west4-a")
    for argv in ((*create, "n1", "-t", "v5litepod-16"), (*create, "tuning", "-t", "v5litepod-4")):
        done = here.tpuctl(*argv)
        assert done.code == 0, done.err
    write(folder, "data-push", push_picture(here))
    *_, lines = run(here, ("quickstart",), COLUMNS)
    for name, titles in SECTIONS.items():
        write(folder, name, picture(("quickstart",), between(lines, *titles), COLUMNS))


def run(here: Gangs, argv: tuple[str, ...], columns: int) -> Frames:
    """What the screen shows while a command runs, without the place of this source tree."""
    environ = {"TPUCTL_HOME": str(here.cloud.home)}
    shown = [*frames(argv, columns, environ)]
    return [[line.replace(f"{ROOT}/", "") for line in lines] for lines in shown]


def push_picture(here: Gangs) -> str:
    """The screen of `tpuctl data push` when about half is sent."""
    (source := here.cloud.home / "corpus").mkdir()
    for number in range(FILES):
        with (source / f"part-{number:02}.bin").open("wb") as file:
            file.truncate(FILE_BYTES)
    argv = ("data", "push", str(source), "gs://local-bucket/corpus")
    halves = {
        abs(FILES / 2 - int(found[1])): lines
        for lines in run(here, argv, COLUMNS)
        if (found := re.search(rf"\b(\d+)/{FILES}\b", "".join(lines)))
    }
    typed = ("data", "push", "corpus", "gs://local-bucket/corpus")
    return picture(typed, halves[min(halves)], COLUMNS)


def between(lines: list[str], first: str, last: str) -> list[str]:
    """The lines from that with the text `first` to before that with `last`."""
    starts = {title: number for number, line in enumerate(lines) for title in (first, last)
              if title and title in line}  # fmt: skip
    return lines[starts.get(first, 0) : starts.get(last, len(lines))]


async def top_picture(here: Gangs) -> str:
    """The screen of `tpuctl top` after it was watched for a while."""
    runtime = here.runtime()
    app = TopScreen(runtime, watch(runtime, runtime.access, NAME))
    async with app.run_test(size=(COLUMNS, ROWS)):
        await asyncio.sleep(LOOKED_AT_S)
        return app.export_screenshot(title=f"tpuctl top {NAME}")


def picture(argv: tuple[str, ...], lines: list[str], columns: int) -> str:
    """A command and what a terminal shows of it."""
    console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True)
    console.print(Text(f"$ tpuctl {shlex.join(argv)}", style="bold"))
    console.print(Text.from_ansi("\n".join(lines).strip("\n")))
    return console.export_svg(title=f"tpuctl {argv[0]}")


def write(folder: Path, name: str, svg: str) -> None:
    """Write a picture without the addresses of fonts: it is to be seen offline as well."""
    text = _FONTS.sub("", svg)
    (folder / f"{name}.svg").write_text(text + "\n" * (not text.endswith("\n")), "utf-8")
