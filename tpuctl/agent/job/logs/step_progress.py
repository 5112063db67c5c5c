"""How far the program is, by what it prints or writes. Python 3.8."""

from __future__ import annotations

import math
import os
import re
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tpuctl.agent.job.logs.redaction import Redaction

STEP_FILE = "step"
STEP_FILE_BYTES = 4096


def parse_progress(lines: bytes) -> dict[str, Any]:
    """The last step with its other values, and the step resumed from, as far as lines say."""
    found: dict[str, Any] = {}
    resumed = last_line(lines, b"resumed step=")
    if resumed is not None and is_step(resumed.split()[1][5:]):
        found["resume_step"] = int(resumed.split()[1][5:])
    return {**found, **parse_step(last_line(lines, b"step=") or "")}


def parse_step(line: str) -> dict[str, Any]:
    """What a line `step=N key=value ...` says; nothing when it is none."""
    words = line.split()
    if not words or not words[0].startswith("step=") or not is_step(words[0][5:]):
        return {}
    metrics = dict(parse_pair(word) for word in words[1:] if "=" in word)
    return {"step": int(words[0][5:]), "metrics": metrics}


def is_step(text: str) -> bool:
    """A step number, of what programs may print."""
    return re.fullmatch(r"[0-9]{1,15}", text) is not None


def last_line(lines: bytes, word: bytes) -> str | None:
    """The text of the last line that starts with the word."""
    at = lines.rfind(b"\n" + word) + 1
    if at == 0 and not lines.startswith(word):
        return None
    return lines[at : lines.find(b"\n", at)].decode("utf-8", "replace")


def parse_pair(word: str) -> tuple[str, float | str]:
    """A key and its value, a number where it is one that JSON can carry."""
    key, _, value = word.partition("=")
    try:
        found = float(value)
    except ValueError:
        return key, value
    return key, found if math.isfinite(found) else value


def first_line(data: bytes) -> bytes:
    """The first line, without a word that was cut."""
    line, newline, _ = data.partition(b"\n")
    return line if newline or len(data) < STEP_FILE_BYTES else line.rpartition(b" ")[0]


def open_nonblocking(path: str, flags: int) -> int:
    """Open what may be a pipe by now."""
    return os.open(path, flags | os.O_NONBLOCK)


class StepFile:
    """The file that a program may write its step to instead of printing it."""

    def __init__(self, directory: str, redaction: Redaction) -> None:
        self.path = os.path.join(directory, STEP_FILE)
        self.redaction = redaction
        self.seen: tuple[int, int, int] | None = None

    def news(self) -> tuple[dict[str, Any], float] | None:
        """What it says and since when, if it was written since it was last looked at."""
        try:
            found = os.stat(self.path)
            version = found.st_ino, found.st_mtime_ns, found.st_size
            if version == self.seen or not stat.S_ISREG(found.st_mode):
                return None  # a pipe would be waited for
            with open(self.path, "rb", opener=open_nonblocking) as file:
                line = self.redaction.of(first_line(file.read(STEP_FILE_BYTES)))
        except OSError:
            return None
        self.seen = version
        told = parse_step(line.decode("utf-8", "replace"))
        return (told, found.st_mtime) if told else None
