"""What the end of a log says about the end of a run. Python 3.8."""

from __future__ import annotations

import re

LINES = 20
LINE_CHARACTERS = 500
TRACEBACK_BYTES = 4096
TRACEBACK_START = re.compile(
    r"^(?:Traceback \(most recent call last\):|Fatal Python error: .*)$", re.M
)
CLOCK = r"\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"
RANK = re.compile(r"^\[rank\d+\]: ?", re.M)
"""What torch puts before each line of a traceback."""
VARYING_PARTS = (
    (re.compile(r"0x[0-9a-fA-F]+"), "0x?"),
    (re.compile(rf"\b\d{{4}}-\d\d-\d\d(?:[T ]{CLOCK})?"), "<time>"),
    (re.compile(rf"\b{CLOCK}"), "<time>"),
)
"""What differs between two runs that failed in the same way."""


def last_lines(log: bytes) -> list[str]:
    """Return the last 20 lines of a log that are not empty, each cut at 500 characters."""
    lines = log.decode("utf-8", "replace").split("\n")
    return [line[:LINE_CHARACTERS] for line in lines if line.strip()][-LINES:]


def traceback(log: bytes) -> str:
    """The last traceback of Python in a log, without what differs each time; empty without one."""
    text = RANK.sub("", log.decode("utf-8", "replace"))
    beginnings = list(TRACEBACK_START.finditer(text))
    if not beginnings:
        return ""
    found = text[beginnings[-1].start() :].split("\n")
    told = "\n".join(found[: 1 + traceback_length(found[1:])])
    for pattern, put in VARYING_PARTS:
        told = pattern.sub(put, told)
    return told.encode()[-TRACEBACK_BYTES:].decode("utf-8", "ignore")


def traceback_length(lines: list[str]) -> int:
    """Return how many lines after the first belong to a traceback, that of its error included."""
    for number, line in enumerate(lines):
        is_stack = line.startswith((" ", "Current thread", "Thread 0x")) or not line
        if not is_stack:
            return number + 1
    return len(lines)
