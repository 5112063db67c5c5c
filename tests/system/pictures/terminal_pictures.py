"""Pictures of the terminal for the guides: the screen of `tpuctl top`, and what commands print."""

import asyncio
import io
import re
import shlex
from pathlib import Path

from rich.console import Console
from rich.text import Text

from system.pictures.watched_job import NAME
from system.stories.gang_cloud import Gangs
from tpuctl.cli.top.screen import TopScreen
from tpuctl.operations.metrics.slice_watch import watch

LOOKED_AT_S = 25.0
COLUMNS, ROWS = 100, 34
SHOWN = {
    "explain": ("explain", NAME),
    "job-describe": ("job", "describe", NAME),
}
"""Picture -> the command whose output it is."""
_FONTS = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)


def make(here: Gangs, folder: Path) -> None:
    """Write every picture of the terminal from a cloud where the watched job runs."""
    write(folder, "top", asyncio.run(top_picture(here)))
    for name, argv in SHOWN.items():
        write(folder, name, command_picture(here, argv))


async def top_picture(here: Gangs) -> str:
    """The screen of `tpuctl top` after it was watched for a while."""
    runtime = here.runtime()
    app = TopScreen(runtime, watch(runtime, runtime.access, NAME))
    async with app.run_test(size=(COLUMNS, ROWS)):
        await asyncio.sleep(LOOKED_AT_S)
        return app.export_screenshot(title=f"tpuctl top {NAME}")


def command_picture(here: Gangs, argv: tuple[str, ...]) -> str:
    """A command and what it prints on a terminal."""
    done = here.tpuctl(*argv)
    assert done.code == 0, done.err
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text(f"$ tpuctl {shlex.join(argv)}", style="bold"))
    console.print(Text(done.out.rstrip()))
    return console.export_svg(title=f"tpuctl {argv[0]}")


def write(folder: Path, name: str, svg: str) -> None:
    """Write a picture without the addresses of fonts: it is to be seen offline as well."""
    text = _FONTS.sub("", svg)
    (folder / f"{name}.svg").write_text(text + "\n" * (not text.endswith("\n")), "utf-8")
