"""Pictures of the terminal for the guides.

    PYTHONPATH=tests python -m system.pictures.terminal_pictures

runs a job on a local cloud, with one slow worker, for two minutes, and writes docs/pictures/*.svg.
"""

import asyncio
import io
import re
import shlex
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

from system.pictures.watched_job import NAME, watched_job
from system.stories.gang_cloud import Gangs
from tpuctl.cli.top.screen import TopScreen
from tpuctl.operations.metrics.slice_watch import watch

PICTURES = Path(__file__).parents[3] / "docs" / "pictures"
WATCHED_S, LOOKED_AT_S = 120.0, 25.0
COLUMNS, ROWS = 100, 34
SHOWN = {
    "explain": ("explain", NAME),
    "job-describe": ("job", "describe", NAME),
}
"""Picture -> the command whose output it is."""
_FONTS = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)


def main() -> None:
    """Make every picture anew."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as home, watched_job(Path(home)) as here:
        time.sleep(WATCHED_S)
        write("top", asyncio.run(top_picture(here)))
        for name, argv in SHOWN.items():
            write(name, command_picture(here, argv))


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


def write(name: str, svg: str) -> None:
    """Write a picture without the addresses of fonts: it is to be seen offline as well."""
    text = _FONTS.sub("", svg)
    (PICTURES / f"{name}.svg").write_text(text + "\n" * (not text.endswith("\n")), "utf-8")


if __name__ == "__main__":
    main()
