"""The guide's pictures: those that pages show are those that the script makes, and small enough."""

import re
from pathlib import Path

from system.pictures import dashboard_pictures, terminal_pictures

ROOT = Path(__file__).parents[3]
PICTURES = ROOT / "docs" / "pictures"
MOST_BYTES = 150 * 1024
AGAIN = "run: PYTHONPATH=tests python -m system.pictures"


def test_every_picture_is_made_by_the_script_shown_by_a_page_described_and_small():
    made = {f"{name}.svg" for name in terminal_pictures.SHOWN}
    made |= {f"{name}.webp" for name in dashboard_pictures.SHOWN}
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    shown = {
        name: words
        for page in pages
        for words, name in re.findall(
            r"!\[([^\]]*)\]\((?:docs/)?pictures/(.+?)\)", page.read_text("utf-8")
        )
    }
    there = {path.name: path.stat().st_size for path in PICTURES.iterdir()}
    assert set(shown) == made
    assert set(there) == made, AGAIN
    assert [name for name, words in shown.items() if len(words) < 20] == []
    assert {name: size for name, size in there.items() if size > MOST_BYTES} == {}
