"""The documentation says what the program does: pages are current, links lead somewhere."""

import re
from pathlib import Path

from unit.docs.cli_pages import PAGES, pages

ROOT = Path(__file__).parents[3]
MARKDOWN = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])


def test_the_pages_of_the_commands_are_current():
    written = {name: (PAGES / name).read_text("utf-8") for name in pages()}
    stale = [name for name, text in pages().items() if written[name] != text]
    assert stale == [], "run: PYTHONPATH=tests python -m unit.docs.cli_pages"


def test_links_lead_somewhere():
    links = {
        (path, target)
        for path in MARKDOWN
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text("utf-8"))
    }
    assert [(str(path), to) for path, to in links if not (path.parent / to).exists()] == []


def test_the_changelog_knows_the_version():
    from tpuctl import __version__

    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_every_command_line_of_the_readme_exists():
    from tpuctl.cli.app import ALIASES, COMMANDS

    fences = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    named = {noun for text in fences for noun in re.findall(r"\btpuctl ([a-z]+)", text)}
    assert named
    assert named <= {*COMMANDS, *ALIASES}
