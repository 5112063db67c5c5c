"""A hook of MkDocs: the site also has the README and other files that are not in docs/.

docs/ stays flat for `tpuctl help PAGE`, and its links are those that GitHub follows. This hook adds
what they lead to outside of docs/, and turns each link to where the file is on the site. The theme
loads one script from another host, for the search of pages that are opened from disk; the hook puts
a copy into the site instead.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
DOCS = "docs/"
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
SHIM = ".ci/iframe-worker/shim.js"
SHIM_ON_SITE = "assets/javascripts/iframe-worker.js"
SHIM_ELSEWHERE = "https://unpkg.com/iframe-worker/shim"
LINK = re.compile(r"(?<=\]\()(?!https?:|#)([^)\s#]+)")


def on_config(config: Any) -> Any:
    """Write out the folders of the navigation: one entry for each page."""
    config.nav = [_expanded(entry) for entry in config.nav]
    return config


def on_files(files: Files, *, config: Any) -> Files:
    """Add the pages outside of docs/, and the files that a page leads to."""
    texts = [*(ROOT / "docs").rglob("*.md"), *(ROOT / name for name in _outer_pages())]
    linked = {name for text in texts for name in _targets(text.relative_to(ROOT).as_posix())}
    for name in sorted({*_outer_pages(), *(each for each in linked if _is_outside(each))}):
        file = File.generated(config, _site_name(name), abs_src_path=str(ROOT / name))
        files.append(file)
    files.append(File.generated(config, SHIM_ON_SITE, abs_src_path=str(ROOT / SHIM)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """The page with every link turned to where its target is on the site."""
    name = _repository_name(page.file)
    here = posixpath.dirname(_site_name(name))

    def turned(match: re.Match[str]) -> str:
        return posixpath.relpath(_site_name(_target(name, match[1])), here or ".")

    return LINK.sub(turned, markdown)


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """The HTML with the site's own copy of the theme's script."""
    return output.replace(
        SHIM_ELSEWHERE, posixpath.relpath(SHIM_ON_SITE, posixpath.dirname(page.url) or ".")
    )


def on_post_template(output: str, **_: Any) -> str:
    """The same of the page that says that there is no such page."""
    return output.replace(SHIM_ELSEWHERE, SHIM_ON_SITE)


def _expanded(entry: Any) -> Any:
    if isinstance(entry, str):
        return entry
    ((title, value),) = entry.items()
    if isinstance(value, list):
        return {title: [_expanded(each) for each in value]}
    if not value.endswith("/"):
        return entry
    root = ROOT if (ROOT / value).is_dir() else ROOT / "docs"
    pages = sorted(path.relative_to(root).as_posix() for path in (root / value).rglob("*.md"))
    return {title: sorted(pages, key=lambda name: name != f"{value}README.md")}


def _outer_pages() -> list[str]:
    templates = (path.relative_to(ROOT).as_posix() for path in (ROOT / "templates").rglob("*.md"))
    return [*(name for name in PAGES if (ROOT / name).is_file()), *sorted(templates)]


def _targets(name: str) -> set[str]:
    return {_target(name, link) for link in LINK.findall((ROOT / name).read_text("utf-8"))}


def _target(name: str, link: str) -> str:
    """The path in the repository that a link of the file `name` leads to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), link))


def _is_outside(name: str) -> bool:
    return not name.startswith(DOCS) and (ROOT / name).is_file()


def _site_name(name: str) -> str:
    """Where a file of the repository is on the site: docs/ is its root, the README its index."""
    return "index.md" if name == PAGES[0] else name.removeprefix(DOCS)


def _repository_name(file: File) -> str:
    path = Path(file.abs_src_path or "")
    return path.relative_to(ROOT).as_posix()
