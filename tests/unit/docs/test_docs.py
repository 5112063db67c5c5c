"""The documentation says what the program does: pages are current, links lead somewhere."""

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import yaml
from typer.exceptions import Exit

from tpuctl.jobs.spec import job_file_schema
from unit.cli.test_help import parse
from unit.docs.cli_pages import PAGES, pages

ROOT = Path(__file__).parents[3]
FRONT = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
GUIDES = [*(ROOT / "docs").glob("*.md")]
MARKDOWN = sorted(
    [
        *FRONT,
        ROOT / "CHANGELOG.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "templates").rglob("*.md"),
        *(ROOT / ".github").rglob("*.md"),
    ]
)
KINDS = ("tutorial", "how-to", "reference", "explanation")
GENERATED = ("accuracy", "unchanged")
"""Pages that a script writes from tables of long texts."""
LINE = 120
LINK = re.compile(r"\[(?:[^\]\[]|\[[^\]]*\])*\]\((?!https?:|mailto:)([^)#\s]*)(#[^)\s]+)?\)")


def test_the_pages_of_the_commands_are_current():
    written = {name: (PAGES / name).read_text("utf-8") for name in pages()}
    stale = [name for name, text in pages().items() if written[name] != text]
    assert stale == [], "run: PYTHONPATH=tests python -m unit.docs.cli_pages"


def test_links_and_anchors_lead_somewhere():
    wrong = []
    for path in MARKDOWN:
        for target, anchor in LINK.findall(without_code(path.read_text("utf-8"))):
            to = (path.parent / target).resolve() if target else path
            if not to.exists():
                wrong.append((str(path.relative_to(ROOT)), target))
            elif anchor and to.suffix == ".md" and anchor[1:] not in anchors(to):
                wrong.append((str(path.relative_to(ROOT)), target + anchor))
    assert wrong == []


def without_code(text: str) -> str:
    """The text without its fenced blocks."""
    return re.sub(r"^( *)```.*?^\1```", "", text, flags=re.DOTALL | re.MULTILINE)


@cache
def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", without_code(path.read_text("utf-8")), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
        found.add(next(f"{name}{end}" for end in ("", "-1", "-2") if f"{name}{end}" not in found))
    return found


def test_lines_are_short():
    texts = [*FRONT, *(path for path in GUIDES if path.stem not in GENERATED)]
    assert [
        f"{path.name}:{number}"
        for path in texts
        for number, line in enumerate(without_code(path.read_text("utf-8")).splitlines(), 1)
        if len(line) > LINE and not line.startswith(("|", "    ", "![")) and not is_word(line)
    ] == []


def is_word(line: str) -> bool:
    """Whether a line cannot be broken: a command of the README that a program reads, or a link."""
    return line.startswith("python3 -m venv .venv &&") or " " not in line.strip().lstrip("-*> ")


def test_every_page_says_what_kind_it_is():
    first = {
        path.name: path.read_text("utf-8").split("\n")[2]
        for path in GUIDES
        if path.stem not in GENERATED
    }
    wanted = tuple(f"This page is {'an' if kind[0] == 'e' else 'a'} {kind}:" for kind in KINDS)
    assert [name for name, line in first.items() if not line.startswith(wanted)] == []


def test_every_page_is_in_the_navigation_of_the_site():
    listed = re.findall(r"([\w-]+)\.md$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    assert sorted({path.stem for path in GUIDES} - {*listed}) == []


def test_every_command_line_of_the_pages_parses():
    wrong = []
    for path in [*FRONT, *GUIDES]:
        for argv in command_lines(path.read_text("utf-8")):
            if any(word.endswith("-completion") for word in argv):  # they act while parsed
                continue
            try:
                with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exit):
                    parse(argv)
            except Exception as error:  # noqa: BLE001
                wrong.append((path.name, shlex.join(argv), str(error)))
    assert wrong == []


def command_lines(text: str) -> Iterator[list[str]]:
    """The arguments of each `tpuctl` in the blocks of shell commands, in substitutions too."""
    for block in re.findall(r"```(?:sh|bash)\n(.*?)```", text, re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            line = re.sub(r"\d?>&?\S+", "", line)
            inner = re.findall(r"\$\((tpuctl [^()]*)\)", line)
            for part in (line, *inner):
                yield from (words[1:] for words in commands(part) if words[0] == "tpuctl")


def commands(line: str) -> Iterator[list[str]]:
    """The words of each simple command of a line of shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if set(word) <= set("();<>|&"):
            if words:
                yield words
            words = []
        elif words or not re.fullmatch(r"\w+=.*|if|until|then|do|trap", word):
            words.append(word)


def test_the_changelog_knows_the_version():
    from tpuctl import __version__

    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_every_command_line_of_the_readme_exists():
    from tpuctl.cli.app import ALIASES, COMMANDS

    fences = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    named = {noun for text in fences for noun in re.findall(r"\btpuctl ([a-z]+)", text)}
    assert named
    assert named <= {*COMMANDS, *ALIASES}


def test_the_first_job_of_the_readme_is_a_job_file_and_a_program():
    text = (ROOT / "README.md").read_text("utf-8")
    files = dict(re.findall(r"cat > (\S+) <<'END'\n(.*?)END\n", text, re.DOTALL))
    compile(files["train.py"], "train.py", "exec")
    document = job_file_schema.read(yaml.compose(files["job.yaml"]))
    assert (document.get("name"), document.get("run")) == ("first", "python3 train.py")
