"""The quickstart on a terminal: tables stay tables while its bar of steps is below them."""

import io
import os
import re
from unittest import mock

from tpuctl.cli.local.quickstart import QuickstartDisplay
from tpuctl.cli.shell.output import Output
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.values import attributes


class Screen(io.StringIO):
    def isatty(self):
        return True


def test_results_above_the_bar_are_for_a_terminal_and_messages_draw_no_second_bar():
    out = Screen()
    runtime = Runtime(out=out, err=out, environ={})
    screen = QuickstartDisplay(runtime, out, out)
    with mock.patch.dict(os.environ, {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "xterm"}):
        with screen.bar(10) as advance:
            advance(5)
            assert (screen.stream.isatty(), screen.messages.isatty()) == (True, False)
            output = Output(runtime.shared, screen.stream, screen.messages, runtime.now)
            output.items([runtime.shared], attributes("output", "quiet"))
            output.note("a message " * 9)
        assert (screen.stream, screen.messages) == (out, out)
    plain = re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]", "", out.getvalue())
    lines = [line.rpartition("\r")[2].rstrip() for line in plain.split("\n")]
    assert [line for line in lines if line and not line.startswith("step")] == [
        "OUTPUT  QUIET",
        "table   no",
        " ".join(["a message"] * 8),
        "a message",
    ]
