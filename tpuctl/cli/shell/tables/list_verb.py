"""A verb that lists: its rows can be chosen, ordered, cut short and watched."""

import io
from typing import TYPE_CHECKING, Any

from tpuctl.cli.shell.options import Verb, rows_of
from tpuctl.cli.shell.tables.listing import ListFlags

if TYPE_CHECKING:
    from tpuctl.cli.shell.runtime import Runtime

WATCH_S = 2.0
HOME, CLEAR_LINE, CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


class ListVerb(Verb):
    """A verb whose result is a list."""

    table = rows_of(ListFlags)

    @staticmethod
    def target_of(runtime: "Runtime") -> ListFlags:
        """The object that keeps what was typed."""
        return runtime.output.list_flags

    def invoke(self, ctx: Any) -> Any:
        """List once, or with --watch again and again."""
        runtime: Runtime = ctx.obj
        if not runtime.output.list_flags.watch:
            return super().invoke(ctx)
        is_screen, shown = runtime.output.is_screen, None
        while True:
            text = self._text(ctx, runtime)
            if is_screen:
                runtime.out.write(screen_of(text))
            elif text != shown:
                runtime.out.write(text)
            shown = text
            runtime.out.flush()
            runtime.sleep(WATCH_S)

    def _text(self, ctx: Any, runtime: "Runtime") -> str:
        """What the verb prints now; a terminal's rows keep their colours and widths."""
        output = runtime.output
        stream, page = output.out, _Page(is_terminal=output.is_terminal)
        output.out = page
        try:
            super().invoke(ctx)
        finally:
            output.out = stream
        return page.getvalue()


class _Page(io.StringIO):
    """A text that says whether it will be shown on a terminal."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def screen_of(text: str) -> str:
    """The text from the top of the screen on, over what was there before."""
    lines = "".join(f"{line}{CLEAR_LINE}\n" for line in text.splitlines())
    return f"{HOME}{lines}{CLEAR_BELOW}"
