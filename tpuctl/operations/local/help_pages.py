"""The pages of the documentation that come with tpuctl."""

from pathlib import Path

import tpuctl
from tpuctl.errors import NotFoundError

PACKAGE = Path(tpuctl.__file__).parent
ROOTS = (PACKAGE / "pages", PACKAGE.parent / "docs")
"""Where pages are: in the installed package, or beside it in the source tree."""


def page_titles() -> dict[str, str]:
    """The title of every page by its name, in the order of the names."""
    return {path.stem: _title(path) for path in sorted(_paths().values())}


def read_page(name: str) -> str:
    """The Markdown text of a page. Raises NotFoundError."""
    path = _paths().get(name)
    if path is None:
        raise NotFoundError(f"there is no page {name!r}", hint="run: tpuctl help")
    return path.read_text("utf-8")


def _paths() -> dict[str, Path]:
    root = next((each for each in ROOTS if each.is_dir()), None)
    return {path.stem: path for path in root.glob("*.md")} if root else {}


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as page:
        return page.readline().lstrip("# ").strip()
