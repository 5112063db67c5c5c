"""Reads the step and metrics that a program prints or writes to a file. Python 3.8."""

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
    """Return `step`, `metrics` and `resume_step` as far as the last lines that have them say."""
    found: dict[str, Any] = {}
    resumed = last_line(lines, b"resumed step=")
    if resumed is not None and is_step(resumed.split()[1][5:]):
        found["resume_step"] = int(resumed.split()[1][5:])
    return {**found, **parse_step(last_line(lines, b"step=") or "")}


def parse_step(line: str) -> dict[str, Any]:
    """Return `step` and `metrics` of a line `step=N key=value ...`; empty for any other."""
    words = line.split()
    if not words or not words[0].startswith("step=") or not is_step(words[0][5:]):
        return {}
    metrics = dict(parse_pair(word) for word in words[1:] if "=" in word)
    return {"step": int(words[0][5:]), "metrics": metrics}


def is_step(text: str) -> bool:
    """Whether a text is a step number: 1 to 15 digits."""
    return re.fullmatch(r"[0-9]{1,15}", text) is not None


def last_line(lines: bytes, word: bytes) -> str | None:
    """Return the last line that starts with the word, None without one."""
    at = lines.rfind(b"\n" + word) + 1
    if at == 0 and not lines.startswith(word):
        return None
    return lines[at : lines.find(b"\n", at)].decode("utf-8", "replace")


def parse_pair(word: str) -> tuple[str, float | str]:
    """Split `key=value`; the value is a float where it is a finite number."""
    key, _, value = word.partition("=")
    return key, parse_number(value)


def parse_number(text: str) -> float | str:
    """Return a finite number as a float, any other text as it is."""
    try:
        found = float(text)
    except ValueError:
        return text
    return found if math.isfinite(found) else text


def first_line(data: bytes) -> bytes:
    """Return the first line, without a word that the block's end cut."""
    line, newline, _ = data.partition(b"\n")
    return line if newline or len(data) < STEP_FILE_BYTES else line.rpartition(b" ")[0]


def open_nonblocking(path: str, flags: int) -> int:
    """Open a file that may be a pipe without waiting for its other end."""
    return os.open(path, flags | os.O_NONBLOCK)


class StepFile:
    """The file that a program may write its step to instead of printing it."""

    def __init__(self, directory: str, redaction: Redaction) -> None:
        self.path = os.path.join(directory, STEP_FILE)
        self.redaction = redaction
        self.seen: tuple[int, int, int] | None = None

    def read_new(self) -> tuple[dict[str, Any], float] | None:
        """Return what it says and its time, in seconds of the epoch; None unless it is new."""
        try:
            found = os.stat(self.path)
            version = found.st_ino, found.st_mtime_ns, found.st_size
            if version == self.seen or not stat.S_ISREG(found.st_mode):
                return None  # a pipe would be waited for
            with open(self.path, "rb", opener=open_nonblocking) as file:
                line = self.redaction.redact(first_line(file.read(STEP_FILE_BYTES)))
        except OSError:
            return None
        self.seen = version
        told = parse_step(line.decode("utf-8", "replace"))
        return (told, found.st_mtime) if told else None
