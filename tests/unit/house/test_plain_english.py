"""What people read is plain English: the worst patterns do not come back."""

import ast
import re
from pathlib import Path

import tpuctl

ROOT = Path(__file__).parents[3]
PATTERNS = {
    "say `again`": r"\banew\b",
    "a hint is a command: `run: tpuctl ...`": r"\blook: ",
    "an error does not ask": r"Nobody to ask",
    "say `is not a`": r"(?<![Tt]here )\b(?:is|was) no "
    r"(?!longer|more|less|such|other|better|smaller)\w",
    "say `does not name a`": r"\bnames no\b|\bis the name of no\b",
    "say `does not have`": r"\bhas not (?:the|a|an|its|\d)\b",
    "say `reports`, and who does": r"\btells (?:nothing|of|people)\b|\bis told of\b"
    r"|\bnobody can tell\b",
    "say `differs from`": r"\botherwise than\b|\bmakes no sense\b",
}
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/cli/*.md")]


def texts(source: str) -> list[str]:
    """Every text in a module: messages, help and docstrings."""
    nodes = ast.walk(ast.parse(source))
    return [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]


def wrong_in(text: str) -> list[str]:
    return [f"{rule}: {each.group()}" for rule, pattern in PATTERNS.items()
            for each in re.finditer(pattern, text)]  # fmt: skip


def test_no_page_and_no_message_has_a_riddle():
    found = {}
    for path in PAGES:
        if path.name not in ("CHANGELOG.md", "CONTRIBUTING.md"):  # which quotes them
            found[path.name] = wrong_in(path.read_text("utf-8"))
    for path in Path(tpuctl.__file__).parent.rglob("*.py"):
        found[str(path)] = [
            each for text in texts(path.read_text("utf-8")) for each in wrong_in(text)
        ]
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_no_error_is_a_question():
    asked = []
    for path in Path(tpuctl.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if (
                isinstance(node, ast.Call)
                and ast.unparse(node.func).endswith("Error")
                and node.args
            ):
                text = ast.unparse(node.args[0])
                if re.search(r"\?[\"']$", text):
                    asked.append((path.name, text))
    assert asked == []
