"""Commands that are shown carry the --context of the command that shows them."""

import io

import pytest

from tpuctl.cli.app import ALIASES, COMMANDS
from tpuctl.cli.shell.options import Shared
from tpuctl.cli.shell.output import CONTEXT_COMMANDS, Output

WITHOUT = {"catalog", "context", "local", "bench", "rehearse", "quickstart", "help"}
"""Commands that do the same in every context, or name the context themselves."""


def test_every_command_is_known_to_need_a_context_or_not():
    assert set(CONTEXT_COMMANDS) | WITHOUT == {*COMMANDS, *ALIASES}
    assert not set(CONTEXT_COMMANDS) & WITHOUT


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("run: tpuctl cost --since 7d", "run: tpuctl --context w cost --since 7d"),
        ("tpuctl capacity v4-8", "tpuctl --context w capacity v4-8"),
        (
            "tpuctl qr list; tpuctl run a.yaml",
            "tpuctl --context w qr list; tpuctl --context w run a.yaml",
        ),
        ("tpuctl catalog types", "tpuctl catalog types"),
        ("tpuctl node-list", "tpuctl node-list"),
    ],
)
def test_a_command_that_is_shown_has_the_context(text, shown):
    output = Output(Shared(context="w"), io.StringIO(), io.StringIO(), lambda: 0.0)
    assert output.typed(text) == shown
