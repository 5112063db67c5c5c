"""tpuctl sends no telemetry: no code names a host but those of Google's APIs."""

import ast
import re
from pathlib import Path

import tpuctl

PACKAGE = Path(tpuctl.__file__).parent
URL = re.compile(r"\b(?:https?|wss?)://([\w.-]+\.[a-z]{2,})")
GOOGLE = re.compile(r".+\.googleapis\.com|tunnel\.cloudproxy\.app|metadata\.google\.internal")
SHOWN = {"cloud.google.com", "www.w3.org"}
"""Pages that a hint names, and the name of SVG itself, which nobody visits."""


def texts(path: Path) -> list[str]:
    """The texts of a module that are not docstrings."""
    tree = ast.parse(path.read_text("utf-8"))
    alone = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return [
        node.value for node in constants if isinstance(node.value, str) and id(node) not in alone
    ]


def test_no_code_names_a_host_that_is_not_googles():
    hosts = {
        (path.relative_to(PACKAGE).as_posix(), host)
        for path in PACKAGE.rglob("*.py")
        if "templates" not in path.relative_to(PACKAGE).parts
        for text in texts(path)
        for host in URL.findall(text)
    }
    assert hosts
    assert {
        each for each in hosts if not GOOGLE.fullmatch(each[1]) and each[1] not in SHOWN
    } == set()
