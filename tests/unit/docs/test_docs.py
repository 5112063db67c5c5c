"""The documentation says what the program does: pages are current, links lead somewhere."""

import re
from pathlib import Path

import pytest

from unit.docs.cli_pages import PAGES, pages

ROOT = Path(__file__).parents[3]
MARKDOWN = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("name", sorted(pages()))
def test_the_page_of_a_command_is_current(name):
    written = (PAGES / name).read_text("utf-8")
    assert written == pages()[name], "run: PYTHONPATH=tests python -m unit.docs.cli_pages"


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text("utf-8")):
        assert (path.parent / target).exists(), target


def test_the_changelog_knows_the_version():
    from tpuctl import __version__

    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_every_command_line_of_the_readme_exists():
    from tpuctl.cli.app import ALIASES, COMMANDS

    fences = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    named = {noun for text in fences for noun in re.findall(r"\btpuctl ([a-z]+)", text)}
    assert named
    assert named <= {*COMMANDS, *ALIASES}
