"""The words that bash sends, which it breaks at `:` and `=`."""

import pytest

from tpuctl.cli.shell.completion.shells import join_broken_words


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
