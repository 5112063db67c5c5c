"""Every picture of the guides, made again.

    PYTHONPATH=tests python -m system.pictures

runs a job on a local cloud, with one slow worker, for two minutes, and writes docs/pictures: of the
terminal always, of the dashboard where there is a Chromium.
"""

import sys
import tempfile
import time
from pathlib import Path

from chromium import chromium_path

from system.pictures import dashboard_pictures, terminal_pictures
from system.pictures.watched_job import watched_job

PICTURES = Path(__file__).parents[3] / "docs" / "pictures"
WATCHED_S = 120.0


def main() -> None:
    """Make every picture again."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as home, watched_job(Path(home)) as here:
        until_s = time.monotonic() + WATCHED_S
        terminal_pictures.make_others(here, PICTURES)
        time.sleep(max(0.0, until_s - time.monotonic()))
        terminal_pictures.make(here, PICTURES)
        if chromium_path() is None:
            sys.exit("there is no Chromium: the pictures of the dashboard stay as they are")
        dashboard_pictures.make(here, PICTURES)


if __name__ == "__main__":
    main()
