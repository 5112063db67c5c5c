"""What a service asks for with the header Retry-After, in seconds and within a bound.

Training programs and agents on workers have it too: Python 3.8 and the standard library.
"""

from __future__ import annotations

import time

LONGEST_ASKED_PAUSE_S = 60.0
"""No client waits longer than that before it asks again, whatever the service asks for."""


def asked_pause_s(retry_after: str, *, now_s: float | None = None) -> float:
    """Seconds that a Retry-After header asks for, as a number or as a date; 0 without one.

    https://www.rfc-editor.org/rfc/rfc9110#field.retry-after
    """
    if retry_after.isdecimal():
        return float(retry_after)
    if not retry_after:
        return 0.0
    import email.utils  # a third of what an agent's other imports take, for a header that is rare

    try:
        date = email.utils.parsedate_to_datetime(retry_after)
    except (TypeError, ValueError):
        return 0.0
    return max(0.0, date.timestamp() - (time.time() if now_s is None else now_s))


def bounded_pause_s(retry_after: str | None) -> float:
    """Seconds that a Retry-After header asks for, 60 at most; 0 without one."""
    return min(LONGEST_ASKED_PAUSE_S, asked_pause_s(retry_after or ""))


def pause_asked_by(error: Exception) -> float:
    """Seconds that an error of a client says the service asked for, 60 at most; else 0."""
    asked_s: float = getattr(error, "asked_s", 0.0)
    return asked_s
