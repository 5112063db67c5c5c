"""One grammar for durations (`90s`, `20m`, `24h`, `7d`)."""

import re

from tpuctl.errors import UsageError

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_PATTERN = re.compile(r"(\d+(?:\.\d+)?)([smhd])")


def seconds(text: str) -> float:
    """Seconds of a duration such as `90s` or `1h30m`; raises UsageError."""
    parts = _PATTERN.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise UsageError(f"{text!r} is not a duration", hint="write it as 90s, 20m, 24h or 7d")
    return sum(float(number) * UNITS[unit] for number, unit in parts)
