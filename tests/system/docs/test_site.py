"""The site of the documentation: it is built without a warning and needs no other host."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MODULES = ("mkdocs", "material")
MISSING = [name for name in MODULES if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.matrix,
    pytest.mark.skipif(bool(MISSING), reason="no mkdocs-material: pip install .[docs]"),
]
LOADED = re.compile(r"<(?:script|img|link)[^>]*(?:src|href)=\"?((?:https?:)?//[^\s\">]+)")
LINKED = re.compile(r"<(?:a|script|img|link)[^>]* (?:src|href)=\"?([^\s\">]+)")
ELSEWHERE = ("http:", "https:", "mailto:", "data:", "#", "javascript:")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    place = tmp_path_factory.mktemp("site")
    argv = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", place]
    environ = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(argv, cwd=ROOT, env=environ, capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return place


def test_the_site_works_from_disk(site):
    pages = [path for path in site.rglob("*.html") if path.name != "404.html"]  # for servers alone
    texts = {path: path.read_text("utf-8") for path in pages}
    assert len(texts) > 50
    assert {url for text in texts.values() for url in LOADED.findall(text)} == set()
    lost = [
        (str(path.relative_to(site)), link)
        for path, text in texts.items()
        for link in LINKED.findall(text)
        if not link.startswith(ELSEWHERE) and not (path.parent / re.split("[?#]", link)[0]).exists()
    ]
    assert lost == []
