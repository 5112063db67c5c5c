"""`tpuctl job logs` of what is in the bucket: where attempts begin, and what is not there."""

import io

import pytest

from client.cli.job.job_records import attempt, job, put, store_of
from tpuctl.cli.app import main
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.models.job import JobState
from tpuctl.operations.jobs import bounded_pattern


@pytest.fixture
def store(cloud):
    return store_of(cloud.home)


@pytest.fixture
def twice(store):
    """A job of two attempts with two workers each, which printed a line each."""
    put(store, job(attempts=(attempt(), attempt(2))))
    for number in (1, 2):
        for worker in (0, 1):
            key = f"tpuctl/jobs/digits-1/logs/a{number}/w{worker}/000000000000"
            store.put_if_absent(key, b"%d.0 step=%d\n" % (number * 100, number))


def test_where_the_second_attempt_begins_is_told_on_stderr(tpuctl, twice):
    result = tpuctl("job", "logs", "digits-1")
    assert (result.out, result.err) == ("[0-1] step=1\n[0-1] step=2\n", "attempt 2:\n")
    one = tpuctl("job", "logs", "digits-1", "--attempt", "1")
    assert (one.out, one.err) == ("[0-1] step=1\n", "")


class Screen(io.StringIO):
    """A stream that a person reads."""

    def isatty(self) -> bool:
        return True


def test_a_program_may_colour_its_lines_and_not_move_the_terminal(cloud, store):
    put(store, job(attempts=(attempt(),)))
    line = b"1.0 \x1b[1;31mred\x1b[0m\ttab \x1b[2J\x1b]0;title\x07 50%\r100%\n"
    store.put_if_absent("tpuctl/jobs/digits-1/logs/a1/w0/000000000000", line)
    environ = {"TPUCTL_HOME": str(cloud.home), "NO_COLOR": "1"}
    runtime = Runtime(out=Screen(), err=io.StringIO(), environ=environ)
    assert main(("job", "logs", "digits-1"), runtime) == 0
    shown = "[0] \x1b[1;31mred\x1b[0m\ttab ?[2J?]0;title? 50%?100%\n"
    assert runtime.out.getvalue() == shown


@pytest.mark.parametrize(
    ("asked", "message", "hint"),
    [
        (("--worker", "9"), "job 'digits-1' has no worker 9", "it has 2 workers, from 0"),
        (("--attempt", "3"), "job 'digits-1' has no attempt 3", "it has made 2"),
        (("--attempt", "0"), "job 'digits-1' has no attempt 0", "it has made 2"),
    ],
)
def test_what_the_job_does_not_have_is_an_error(tpuctl, twice, asked, message, hint):
    result = tpuctl("job", "logs", "digits-1", *asked)
    assert (result.code, result.out) == (10, "")
    assert result.err == f"error: {message}\nhint: {hint}\n"


def test_nothing_to_print_is_told(tpuctl, store, twice):
    result = tpuctl("job", "logs", "digits-1", "--grep", "loss")
    assert (result.code, result.out) == (0, "")
    assert result.err == "job digits-1: no lines like these\n"
    put(store, job("quiet-2", JobState.SUCCEEDED))
    assert tpuctl("job", "logs", "quiet-2").err == "job quiet-2: no lines yet\n"


def test_an_expression_that_never_ends_is_given_up(tpuctl, store, monkeypatch):
    monkeypatch.setattr(bounded_pattern, "LIMIT_S", 0.02)
    put(store, job(attempts=(attempt(),)))
    lines = b"1.0 aab\n2.0 " + b"a" * 60 + b"b\n"
    store.put_if_absent("tpuctl/jobs/digits-1/logs/a1/w0/000000000000", lines)
    result = tpuctl("job", "logs", "digits-1", "--grep", "(a+)+$")
    assert (result.code, result.err) == (
        2,
        "error: '(a+)+$' takes more than 0.02 s for one line\n"
        "hint: put no repeat within a repeat: a+ in place of (a+)+\n",
    )
    assert tpuctl("job", "logs", "digits-1", "--grep", "^a+b$").out.count("\n") == 2
    wrong = tpuctl("job", "logs", "digits-1", "--grep", "(")
    assert (wrong.code, wrong.err[:38]) == (2, "error: '(' is not a regular expression")
