"""Clients of Cloud Storage that are too large for the test suite, run against a simulator.

    python tests/system/clients/other_clients.py SCRATCH [PAGE]

makes a virtual environment and a node_modules in SCRATCH, installs the clients, starts a simulator
there, tells every story, and writes what came of it to PAGE (docs/storage-clients.md), below the
heading Stories. Exit status 1 when a story went wrong.
"""

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from urllib.request import Request, urlopen

HERE = Path(__file__).parent
ORBAX = ("orbax-checkpoint==0.12.8", "jax", "gcsfs")
NODE = "@google-cloud/storage@7.22.0"
STORY_S = 300
STORIES = "## Stories\n"
HEAD = """\

Beside the client suites of this repository (google-cloud-storage, gcsfs, obstore and TensorStore,
and where they are installed rclone, gsutil and `gcloud storage`), these were run, unmodified, by
`python tests/system/clients/other_clients.py SCRATCH`, which writes this part of the page.

{date}, Python {python}, Node.js {node}

| client | version | story | result |
|---|---|---|---|
"""


class Told(NamedTuple):
    """One story of one client, and what came of it."""

    client: str
    version: str
    story: str
    result: str


def main(scratch: str, page: str = "docs/storage-clients.md") -> int:
    """Run everything; how many stories went wrong, at most 1."""
    root = Path(scratch).absolute()
    root.mkdir(parents=True, exist_ok=True)
    state = root / "state"
    shutil.rmtree(state, ignore_errors=True)
    argv = [sys.executable, "-P", "-m", "localsim", "serve", "--state-dir", str(state)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as simulator:
        try:
            storage = json.loads(simulator.stdout.readline())["storage"]
            told = [*orbax(root / "python", storage), *node(root / "node", storage)]
        finally:
            simulator.terminate()
    head = HEAD.format(
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        python=".".join(map(str, sys.version_info[:3])),
        node=output("node", "--version").strip().removeprefix("v"),
    )
    rows = "".join(f"| {' | '.join(row)} |\n" for row in told)
    above = Path(page).read_text("utf-8").partition(STORIES)[0]
    Path(page).write_text(above + STORIES + head + rows, "utf-8")
    return int(any(row.result != "ok" for row in told))


def orbax(folder: Path, storage: str) -> list[Told]:
    """Checkpoints through Orbax, which writes arrays with TensorStore and the rest with gcsfs."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        run(str(python), "-m", "pip", "install", "-q", *ORBAX)
    body = json.dumps({"name": "orbax-box"}).encode()
    request = Request(
        f"{storage}/storage/v1/b?project=p", body, {"Content-Type": "application/json"}
    )
    urlopen(request).close()
    settings = {
        "STORAGE_EMULATOR_HOST": storage,
        "TENSORSTORE_GCS_HTTP_URL": storage,
        "GOOGLE_AUTH_TOKEN_FOR_TESTING": "none",
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
        "JAX_PLATFORMS": "cpu",
    }
    stories = str(HERE / "checkpoint_stories.py")
    lines = "".join(
        output(str(python), stories, "orbax-box", phase, **settings) for phase in ("save", "crash")
    )
    version = ORBAX[0].partition("==")[2]
    return [
        Told("Orbax CheckpointManager", version, *json.loads(line)) for line in lines.splitlines()
    ]


def node(folder: Path, storage: str) -> list[Told]:
    """Google's client for Node.js."""
    folder.mkdir(exist_ok=True)
    if not (folder / "node_modules").exists():
        run("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", NODE, folder=folder)
    stories = str(HERE / "bucket_stories.mjs")
    lines = output("node", stories, storage, folder=folder).splitlines()
    name, _, version = NODE.rpartition("@")
    return [Told(f"`{name}`", version, *json.loads(line)) for line in lines]


def run(*argv: str, folder: Path | None = None) -> None:
    """A command that must succeed."""
    subprocess.run(argv, cwd=folder, check=True, timeout=STORY_S)


def output(*argv: str, folder: Path | None = None, **settings: str) -> str:
    """What a command that must succeed prints."""
    environment: Mapping[str, str] = os.environ | settings
    done = subprocess.run(
        argv,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=STORY_S,
    )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
