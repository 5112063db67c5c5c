"""The examples of docs/testing.md, each as a file of tests, and its tables."""

import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import clouds

import localsim
from localsim.testing import SimulatedCloud, pytest_plugin
from system.localsim.testing.test_pytest_plugin import run_pytest

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "testing.md").read_text("utf-8")
PROGRAMS = Path(__file__).parents[1] / "rehearsals" / "programs"
BLOCK = re.compile(r"^```(python|yaml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for name, text in BLOCK.findall(PAGE) if name == language]


def first_cells(heading: str) -> list[str]:
    """The first cells of the table after a line that begins so."""
    table = PAGE.partition(f"\n{heading}")[2].partition("\n|")[2].partition("\n\n")[0]
    return [row.split(" | ")[0].strip("| ") for row in table.splitlines()[2:]]


def write_training(directory: Path) -> None:
    """A job file `train.yaml` of a program that comes back right."""
    shutil.copytree(PROGRAMS, directory, dirs_exist_ok=True)
    text = (PROGRAMS / "sound" / "single_worker.yaml").read_text()
    (directory / "train.yaml").write_text(text.replace("workdir: ..", "workdir: ."))


@clouds.MATRIX
def test_the_examples_do_what_the_page_says(tmp_path):
    (tmp_path / "job.yaml").write_text(blocks("yaml")[0])
    write_training(tmp_path)
    scripts = [
        text for text in blocks("python") if not re.search(r"^ *def test_", text, re.MULTILINE)
    ]
    assert len(scripts) == 1
    subprocess.run([sys.executable, "-c", scripts[0]], cwd=tmp_path, check=True)
    for number, text in enumerate(blocks("python")):
        if text not in scripts:
            (tmp_path / f"test_{number}.py").write_text(text)
    done = run_pytest(tmp_path, "--strict-markers")
    assert done.returncode == 0, done.stdout
    assert "10 passed" in done.stdout


def test_every_argument_is_in_the_table():
    told = [cell.strip("`") for cell in first_cells("`localsim.cloud()` takes")]
    assert told == list(inspect.signature(localsim.cloud).parameters)


def test_every_member_is_in_the_table():
    cells = " ".join(first_cells("A `SimulatedCloud` has"))
    told = set(re.findall(r"`(\w+)", cells))
    public = {name for name in vars(SimulatedCloud) if not name.startswith("_")}
    assert told == (public - {"close"}) | {"endpoints", "home", "clock"}


def test_every_fixture_is_in_the_table():
    table = PAGE.partition("| fixture")[2].partition("\n\n")[0]
    told = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    fixtures = {
        name
        for name, value in vars(pytest_plugin).items()
        if not name.startswith("_") and "fixture" in type(value).__name__.lower()
    }
    assert told == fixtures


def test_the_page_is_found():
    assert "(docs/testing.md)" in (DOCS.parent / "README.md").read_text("utf-8")
