"""A fact about a generation is a key of its file: no code names one."""

import ast
import re
from pathlib import Path

import localsim
import tpuctl
from tpuctl import catalog

PREFIXES = "|".join(re.escape(one.type_prefix) for one in catalog.generations())
NAMES = "|".join(re.escape(one.name) for one in catalog.generations())
NAMED = re.compile(rf"({NAMES})|({PREFIXES})\d+")
QUOTED = re.compile(rf"""["'](({NAMES})|({PREFIXES})\d+)["']""")
API_VERSIONS = re.compile(r"v2")
"""The Cloud TPU API's first version has the name of a generation."""


def named(path: Path) -> list[str]:
    """Texts of a module that are the name of a generation or of a type, docstrings left out."""
    text = path.read_text("utf-8")
    if not QUOTED.search(text):
        return []  # to parse all modules takes a second
    return [
        f"{path}:{node.lineno}: {node.value}"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if NAMED.fullmatch(node.value) and not API_VERSIONS.fullmatch(node.value)
    ]


def test_no_code_names_a_generation():
    packages = (Path(package.__file__).parent for package in (tpuctl, localsim))
    assert [line for root in packages for path in root.rglob("*.py") for line in named(path)] == []
