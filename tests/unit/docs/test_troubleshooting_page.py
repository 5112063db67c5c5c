"""docs/troubleshooting.md: the words of errors are those of the code."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "troubleshooting.md"


def texts(package: str) -> set[str]:
    """Every text in the modules of a package; of an f-string, the parts between the values."""
    trees = (ast.parse(path.read_text("utf-8")) for path in (ROOT / package).rglob("*.py"))
    constants = (node for tree in trees for node in ast.walk(tree))
    return {
        node.value
        for node in constants
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_the_words_of_errors_are_those_of_the_code():
    rows = re.findall(r"^\| (.+?) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    seen = {part for row in rows for part in re.findall(r"`([^`]+)`", row)}
    pieces = {
        piece.strip(" '\"?:")
        for text in seen
        for piece in text.split("…")
        if len(piece.split()) > 1
    }
    assert len(pieces) > 30
    known = "\n".join(texts("tpuctl") | texts("localsim"))
    assert sorted(piece for piece in pieces if piece not in known) == []
