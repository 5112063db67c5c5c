"""One grammar for durations (`90s`, `20m`, `24h`, `7d`), and one short text for people (`20 m`)."""

import re

from tpuctl.errors import UsageError

LONGEST_S = 100 * 365 * 86400
"""Nobody waits longer, and times of the API end in the year 9999."""
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_PATTERN = re.compile(r"(\d+(?:\.\d+)?)([smhd])")


def parse_duration(text: str) -> float:
    """Seconds of a duration such as `90s` or `1h30m`; raises UsageError."""
    parts = _PATTERN.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise UsageError(f"{text!r} is not a duration", hint="write it as 90s, 20m, 24h or 7d")
    seconds = sum(float(number) * UNITS[unit] for number, unit in parts)
    if seconds > LONGEST_S:
        raise UsageError(f"{text[:40]!r} is too long", hint="give a hundred years at most")
    return seconds


def age(seconds: float) -> str:
    """A duration in seconds as text for people: `45 s`, `3 m`, `2 h`, `5 d`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"
