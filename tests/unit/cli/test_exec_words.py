"""What `node exec` runs, and whose lines it prints in which colour."""

import io

import pytest

from tpuctl.byte_size import count_text
from tpuctl.cli.node.exec import command_words
from tpuctl.cli.node.exec_output import LabelledSink
from tpuctl.cli.node.ssh import SHELL_LINE
from tpuctl.errors import UsageError


def test_a_program_goes_as_it_is_and_a_line_to_the_shell():
    assert command_words("node exec n1", ["ls", "a b", "$X"], None) == ["ls", "a b", "$X"]
    assert command_words("node exec n1", ["hostname"], None) == ["hostname"]
    assert command_words("node exec n1", [], "ls | wc") == [*SHELL_LINE, "ls | wc"]


@pytest.mark.parametrize(
    ("argv", "line", "message", "hint"),
    [
        (
            ["ls | wc"],
            None,
            "'ls | wc' is a line for a shell, and exec runs a program with its arguments",
            "run: tpuctl node exec n1 --command 'ls | wc', or -- sh -c 'ls | wc'",
        ),
        ([], None, "no command is given", "run: tpuctl node exec n1 -- COMMAND [ARG]..."),
        (["ls"], "ls", "--command and -- COMMAND exclude each other", "run: tpuctl node exec"),
    ],
)
def test_what_no_worker_could_run_is_explained(argv, line, message, hint):
    with pytest.raises(UsageError) as caught:
        command_words("node exec n1", argv, line)
    assert str(caught.value) == message
    assert caught.value.hint.startswith(hint)


@pytest.mark.parametrize(
    ("are_coloured", "printed"),
    [
        ([True, False], "\x1b[38;5;166m[1]\x1b[0m hello\n"),
        ([False, True], "[1] hello\n"),
        (None, "hello\n"),
    ],
)
def test_labels_are_coloured_where_the_stream_shows_colours(are_coloured, printed):
    out, err = io.StringIO(), io.StringIO()
    sink = LabelledSink((out, err), are_coloured)
    write, _ = sink.writers(1)
    write(b"hello\n")
    sink.close()
    assert (out.getvalue(), err.getvalue()) == (printed, "")


def test_a_number_of_things_has_its_plural():
    assert [count_text(n, "file") for n in (0, 1, 2)] == ["0 files", "1 file", "2 files"]
