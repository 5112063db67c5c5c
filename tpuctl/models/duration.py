"""One grammar for durations (`90s`, `20m`, `24h`, `7d`)."""

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
