"""The bar of a copy, as a terminal shows it."""

import io
import re

import pytest

from tpuctl.cli.shell.copy_progress import show_copy
from tpuctl.cli.shell.runtime import Runtime


class Terminal(io.StringIO):
    """Remembers what is written to it."""

    def isatty(self):
        return True


def test_a_warning_goes_on_a_line_of_its_own_above_the_bar():
    runtime = Runtime(out=io.StringIO(), err=Terminal())
    with show_copy(runtime, objects=2, total_bytes=2 * 2**20) as watch:
        watch.advance(2**20)
        runtime.output.warn("set/a: not there\nany more")
    runtime.output.warn("afterwards")
    lines = runtime.err.getvalue().splitlines()
    plain = [re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]", "", line) for line in lines]
    assert [line for line in plain if "warning" in line] == [
        "warning: set/a: not there any more",
        "warning: afterwards",
    ]


@pytest.mark.parametrize(("done_bytes", "is_shown"), [(2**20, True), (2**19, False), (0, False)])
def test_only_of_a_whole_copy_the_bar_stays(done_bytes, is_shown):
    runtime = Runtime(out=io.StringIO(), err=Terminal())
    with show_copy(runtime) as watch:
        if done_bytes:
            watch.expect(1, 2**20)
        watch.advance(done_bytes)
        watch.finished()
    erased = runtime.err.getvalue().rstrip("\n").endswith("\x1b[1A\x1b[2K")
    assert erased != is_shown


def test_before_the_amount_is_known_no_figure_is_shown():
    runtime = Runtime(out=io.StringIO(), err=Terminal())
    with show_copy(runtime) as watch:
        watch.advance(0)
    before = runtime.err.getvalue()
    assert ("listing what is to be copied" in before, "0/" in before) == (True, False)
    with show_copy(runtime) as watch:
        watch.expect(2, 0)
        watch.finished()
    shown = re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]", "", runtime.err.getvalue())
    assert ("0/0 bytes 1/2" in shown, "?" in shown) == (True, False)


def test_amounts_and_rates_are_in_the_same_units():
    runtime = Runtime(out=io.StringIO(), err=Terminal())
    with show_copy(runtime, objects=1, total_bytes=4 * 2**20) as watch:
        for _ in range(4):
            watch.advance(2**20)
    shown = runtime.err.getvalue()
    assert ("4.0/4.0 MiB" in shown, "iB/s" in shown, "MB/s" in shown) == (True, True, False)
