"""The words that bash sends, which it breaks at `:` and `=`."""

from types import SimpleNamespace

import pytest

from tpuctl.cli.job import group
from tpuctl.cli.job.details import columns
from tpuctl.cli.shell.completion.shells import answer, join_broken_words
from tpuctl.cli.shell.tables.listing import complete_column, complete_condition, declare_keys


@pytest.mark.parametrize(
    ("words", "whole", "cut"),
    [
        (["tpuctl", "node", "li"], ["tpuctl", "node", "li"], 0),
        (["data", "list", "gs", ":", "//b/x"], ["data", "list", "gs://b/x"], 3),
        (["data", "list", "gs", ":"], ["data", "list", "gs:"], 3),
        (["cp", "a", "n1", ":", ""], ["cp", "a", "n1:"], 3),
        (["push", "x", "worker", ":", "n1", ":", "s"], ["push", "x", "worker:n1:s"], 10),
        (["list", "--zone", "=", "us-w"], ["list", "--zone", "us-w"], 0),
        (["list", "--zone", "="], ["list", "--zone", ""], 0),
        (["update", "--labels", "a", "=", "b"], ["update", "--labels", "a=b"], 2),
        (["exec", "gs", ":", "//b", "n"], ["exec", "gs://b", "n"], 0),
        ([], [], 0),
    ],
)
def test_words_are_whole_again(words, whole, cut):
    assert join_broken_words(words) == (whole, cut)


def test_columns_are_offered_one_after_another():
    listing = declare_keys(lambda: ("a", "b"))(lambda: None)
    listed = SimpleNamespace(command=SimpleNamespace(callback=listing))
    assert complete_column(listed, [], "") == ["a", "b"]
    assert complete_column(listed, [], "a,") == ["a,b"]
    assert complete_condition(listed, [], "") == ["a=", "a~", "b=", "b~"]
    other = SimpleNamespace(command=SimpleNamespace(callback=repr))
    assert (complete_column(other, [], ""), complete_condition(other, [], "")) == ([], [])


def test_the_keys_that_are_offered_for_jobs_are_those_of_the_list():
    assert tuple(columns(0.0)) == group.LIST_KEYS


def test_no_error_of_a_completion_reaches_the_prompt(capsys):
    with pytest.raises(SystemExit) as ended:
        answer(lambda: open("/no/such/file"))  # noqa: PTH123, SIM115
    assert (ended.value.code, capsys.readouterr()) == (0, ("", ""))
