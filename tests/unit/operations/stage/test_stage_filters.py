"""Globs mean what they mean in .gitignore."""

import pytest

from tpuctl.errors import LocalIOError, UsageError
from tpuctl.models.transfer import TransferScope
from tpuctl.operations.stage.plan.walk import Selection, selection


@pytest.mark.parametrize(
    ("exclude", "name", "taken"),
    [
        (["*.log"], "a.log", False),
        (["*.log"], "deep/a.log", False),
        (["/a.log"], "deep/a.log", True),
        (["logs/"], "logs/x", False),
        (["logs/"], "logs", True),
        (["a/**/z"], "a/b/c/z", False),
        (["*.log", "!keep.log"], "keep.log", True),
        (["logs/*", "!logs/keep"], "logs/keep", True),
        (["# comment", ""], "comment", True),
        ([r"\#1"], "#1", False),
    ],
)
def test_excludes(exclude, name, taken):
    assert Selection(exclude=exclude).matches(name) is taken


def test_includes_name_all_that_takes_part():
    chosen = Selection(include=["*.csv"], exclude=["old/"])
    taken = [chosen.matches(name) for name in ("a.csv", "deep/a.csv", "a.txt", "old/a.csv")]
    assert taken == [True, True, False, False]


def test_a_directory_is_entered_unless_it_is_excluded():
    chosen = Selection(include=["*.csv"], exclude=["cache/", "logs/*", "!logs/keep/"])
    assert [chosen.may_contain(name) for name in ("data", "cache", "a/cache", "logs/keep")] == [
        True, False, False, True,
    ]  # fmt: skip


def test_the_file_of_a_directory_comes_first_and_the_command_line_decides(tmp_path):
    (tmp_path / ".tpuctlignore").write_text("*.tmp\n*.log\n")
    chosen = selection(str(tmp_path), TransferScope(exclude=("!a.log",)))
    assert [chosen.matches(name) for name in ("a.tmp", "a.log", "b.log")] == [False, True, False]


def test_without_patterns_everything_takes_part(tmp_path):
    chosen = selection(str(tmp_path), TransferScope())
    assert chosen.matches("anything")


def test_what_is_no_pattern_is_said(tmp_path):
    with pytest.raises(UsageError):
        Selection(exclude=["!"])
    (tmp_path / ".tpuctlignore").write_bytes(b"\xff\xfe")
    with pytest.raises(LocalIOError, match="not UTF-8"):
        selection(str(tmp_path), TransferScope())
