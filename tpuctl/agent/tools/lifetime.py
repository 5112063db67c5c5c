"""When a slice is to be deleted, by its labels: one rule for supervisors, people and the slice.

    tpuctl-ttl: 4h                  deleted this long after the API has created its node
    tpuctl-delete-when-idle: 30m    deleted when no worker has been used for this long

Every worker of a slice with the second label writes the guest attribute `tpuctl/activity`: when it
was used last and when it looked, both by Google's clock. A label or an attribute that cannot be
understood deletes nothing. Standard library only, Python 3.8; the slice has this file too.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Activity = tuple[float, float]

TTL_LABEL = "tpuctl-ttl"
IDLE_LABEL = "tpuctl-delete-when-idle"
NAMESPACE = "tpuctl"
ACTIVITY = "activity"
"""The guest attribute of a worker, in NAMESPACE."""
STALE_S = 180.0
"""A worker that has not looked for this long is not known to be idle."""
MOST_LABEL_S = 100 * 365 * 86400
UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
_PART = re.compile(r"(\d{1,10})([dhms])")


def label_text(seconds: float) -> str:
    """A duration as a label can hold it, such as `1h30m`; a part of a second counts as one."""
    left = max(1, -int(-seconds // 1))
    parts = []
    for unit, size in UNITS:
        if left >= size:
            parts.append(f"{left // size}{unit}")
            left %= size
    return "".join(parts)


def label_seconds(text: str) -> int | None:
    """The seconds of a label's duration; None for what is not one."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    sizes = dict(UNITS)
    seconds = sum(int(number) * sizes[unit] for number, unit in parts)
    return seconds if 0 < seconds <= MOST_LABEL_S else None


def expires_s(labels: Mapping[str, str], created_s: float) -> float | None:
    """When the TTL of a node ends, in seconds since 1970; None without one.

    `created_s` is the node's createTime. None as well where the label is not a duration.
    """
    ttl_s = label_seconds(labels.get(TTL_LABEL, ""))
    return None if ttl_s is None or created_s <= 0 else created_s + ttl_s


def is_expired(labels: Mapping[str, str], created_s: float, now_s: float) -> bool:
    """Whether the TTL of a node is over."""
    end_s = expires_s(labels, created_s)
    return end_s is not None and now_s >= end_s


def activity_text(active_s: float, looked_s: float) -> str:
    """The value of a worker's guest attribute."""
    return f"{active_s:.0f} {looked_s:.0f}"


def read_activity(text: str) -> Activity | None:
    """When a worker was used last and when it looked; None where it does not say so."""
    words = text.split()
    if len(words) != 2 or not all(word.isdigit() and len(word) < 13 for word in words):
        return None
    return float(words[0]), float(words[1])


def idle_since_s(reports: Sequence[str], workers: int, now_s: float) -> float | None:
    """Since when no worker of a slice has been used; None where that is not known of all.

    `reports` has the guest attribute of each of the workers, empty where one has none.
    """
    found = [read_activity(text) for text in reports]
    known = [each for each in found if each is not None and now_s - each[1] <= STALE_S]
    if not known or len(known) < max(workers, len(reports)):
        return None
    return max(active_s for active_s, _ in known)


def is_idle_for_too_long(
    labels: Mapping[str, str], reports: Sequence[str], workers: int, now_s: float
) -> bool:
    """Whether a slice has been idle for longer than its label allows."""
    limit_s = label_seconds(labels.get(IDLE_LABEL, ""))
    since_s = None if limit_s is None else idle_since_s(reports, workers, now_s)
    return limit_s is not None and since_s is not None and now_s - since_s >= limit_s


def overdue_text(
    labels: Mapping[str, str],
    created_s: float,
    reports: Sequence[str],
    workers: int,
    now_s: float,
) -> str | None:
    """Why a slice is to be deleted now; None while it may stay."""
    if is_expired(labels, created_s, now_s):
        return f"its ttl of {labels[TTL_LABEL]} is over"
    if is_idle_for_too_long(labels, reports, workers, now_s):
        return f"no worker was used for {labels[IDLE_LABEL]}"
    return None
