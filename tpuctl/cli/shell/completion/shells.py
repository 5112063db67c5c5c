"""What Typer's completion lacks: words that bash breaks at `:`, answers without rich, silence."""

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from typer import _completion_classes
from typer._click import shell_completion

BASH = "bash"


def answer(complete: Callable[[], None]) -> None:
    """Answer a shell by Typer's `complete` and end the process; no error reaches the prompt."""
    shell_completion.add_completion_class(BrokenWordBash, BASH)
    # It would load rich for each TAB, to take out markup that no text of ours has.
    _completion_classes._sanitize_help_text = str  # type: ignore[assignment] # noqa: SLF001
    try:
        complete()
    except Exception:  # noqa: BLE001 - nobody who types can use a message here
        sys.exit(0)


class BrokenWordBash(_completion_classes.BashComplete):
    """Bash, which breaks words at `:` and `=` and replaces only what is behind the last one."""

    _cut = 0

    def get_completion_args(self) -> tuple[list[str], str]:
        """The whole words before the cursor, and the one at the cursor."""
        try:
            typed = shell_completion.split_arg_string(os.environ["COMP_WORDS"])
            count = int(os.environ["COMP_CWORD"]) + 1
        except (KeyError, ValueError):
            return [], ""
        words = typed[:count] if len(typed) >= count else [*typed, ""]
        whole, self._cut = join_broken_words(words)
        return whole[1:-1], whole[-1]

    def format_completion(self, item: Any) -> str:
        """The part of a value that replaces what bash takes for the word."""
        return str(item.value)[self._cut :]


def join_broken_words(words: Sequence[str]) -> tuple[list[str], int]:
    """The words as they were typed, and how much of the last one bash takes for words before it.

    The `=` between an option and its value is left out.
    """
    whole: list[str] = []
    cut, is_glued = 0, False
    for word in words:
        if word == "=" and whole and whole[-1].startswith("-"):
            whole.append("")
            cut, is_glued = 0, True
        elif set(word) in ({":"}, {"="}) and whole:
            whole[-1] += word
            cut, is_glued = len(whole[-1]), True
        elif is_glued:
            whole[-1] += word
            is_glued = False
        else:
            whole.append(word)
            cut = 0
    return whole, cut
