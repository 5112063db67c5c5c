"""Pictures of the dashboard for the guide: by day in a window, by night on a telephone."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chromium import Tab, browse

from system.pictures.watched_job import NAME
from system.stories.gang_cloud import ZONE, Gangs

LOOKED_AT_S = 35.0
"""As long a node's page is open first: its workers are measured only while somebody looks."""
WINDOW, TELEPHONE = (1280, "light", 1900), (390, "dark", 1900)
"""Width, colour scheme and the greatest height of a picture."""
SHOWN = {
    "dashboard-job": ("job", WINDOW), "dashboard-job-phone": ("job", TELEPHONE),
    "dashboard-node": ("node", WINDOW), "dashboard-node-phone": ("node", TELEPHONE),
}  # fmt: skip
"""Picture -> the page that it shows, and how."""


def make(here: Gangs, folder: Path) -> None:
    """Take every picture of the dashboard of a cloud where the watched job runs."""
    with dashboard(here.cloud.home) as link:
        asyncio.run(take_pictures(link, here.jobs[NAME], folder))


@contextmanager
def dashboard(home: Path) -> Iterator[str]:
    """A dashboard that runs; its link."""
    argv = [sys.executable, "-P", "-m", "tpuctl", "dashboard", "--no-open"]
    environ = {**os.environ, "TPUCTL_HOME": str(home)}
    with subprocess.Popen(argv, env=environ, text=True, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


async def sign_in(tab: Tab, link: str) -> str:
    """Open the link that works once; returns the address that all pages begin with."""
    base = link.partition("/login")[0]
    await tab.send("Page.navigate", url=link)
    await tab.until(f"location.href == '{base}/'")
    return base


async def take_pictures(link: str, job: str, folder: Path) -> None:
    """Take every picture when its charts are drawn and its workers were measured."""
    paths = {"job": f"/jobs/{job}", "node": f"/nodes/{ZONE}/{job}-a2"}
    async with browse() as tab:
        base = await sign_in(tab, link)
        for path in paths.values():
            await tab.go(base + path)
            await asyncio.sleep(LOOKED_AT_S)
        for name, (page, (width, scheme, most_height)) in SHOWN.items():
            await tab.resize(width)
            await tab.prefer(scheme)
            await tab.go(base + paths[page])
            await tab.until("document.querySelector('[data-drawn]') !== null")
            await tab.until("document.querySelector('.chip[class*=heat]') !== null")
            await tab.picture(folder / f"{name}.webp", most_height=most_height)
