"""What the entries of a moment's timeline do to a job, in words and in seconds."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tpuctl.errors import UsageError
from tpuctl.models.duration import parse_duration
from tpuctl.models.rehearsal.moment import Moment

PREEMPT = "preempt "
_NOTICE = re.compile(r" with notice of (\S+)")
Entry = Mapping[str, Any]


def entry_named(moment: Moment, name: str) -> Entry:
    """The entry that has a name, at whatever depth; empty where the timeline has none."""
    return next((each for each in _entries(moment.timeline) if each.get("name") == name), {})


def _entries(timeline: Iterable[Entry]) -> Iterator[Entry]:
    for entry in timeline:
        yield entry
        yield from _entries(entry.get("then", ()))


def _actions(entry: Entry) -> list[str]:
    actions = entry.get("do", [])
    return [actions] if isinstance(actions, str) else list(actions)


def entry_text(entry: Entry, moment: Moment) -> str:
    """`preempted, 30 s of notice`, or the kind of the moment, such as `worker hangs`."""
    if not any(action.startswith(PREEMPT) for action in _actions(entry)):
        return moment.disturbance.replace("-", " ")
    notice_s = _notice_s(entry)
    return f"preempted, {f'{notice_s:g} s of' if notice_s else 'no'} notice"


def entry_lasts_s(entry: Entry) -> float | None:
    """For how long the entry acts: until its fault ends, or until its notice is over.

    None: at once, or for good.
    """
    return _seconds(entry["for"]) if "for" in entry else _notice_s(entry)


def _notice_s(entry: Entry) -> float | None:
    notices = map(_NOTICE.search, _actions(entry))
    return next((_seconds(notice[1]) for notice in notices if notice), None)


def _seconds(text: str) -> float | None:
    try:
        return parse_duration(text)
    except UsageError:
        return None
