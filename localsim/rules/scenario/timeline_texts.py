"""The grammar of a scenario's timeline."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from localsim.rules.scenario import fault_texts
from localsim.rules.scenario import scenario_checks as checks
from localsim.rules.scenario.scenario_checks import ScenarioError
from localsim.rules.scenario.timeline_types import (
    EntryAction,
    FaultBegin,
    FaultEnd,
    LineTrigger,
    Nothing,
    Preemption,
    ReadyTrigger,
    RequestPhase,
    RequestTrigger,
    RequestVerb,
    TimelineEntry,
    TimeTrigger,
    Trigger,
)

KEYS = ("name", "when", "do", "for", "then")
MOST_ENTRIES = 1000
_EXAMPLES = (
    "at 90s",
    "20s after 1st READY of train-*",
    "in the middle of 2nd upload of local-bucket/runs/*",
    "at step 40 of train-*/0",
)
_DO_EXAMPLES = ("preempt train-* without notice", "worker train-*/1: hangs", "nothing")

_TIME = r"(?P<time>\d{1,9}(?:\.\d{1,3})?\s?(?:ms|s|m|h))"
_NTH = r"(?P<nth>\d{1,9})(?:st|nd|rd|th)"
_WORKER = r"(?P<worker>[^/\s]+/(?:\d{1,4}|\*))"
_PHASES = "|".join(RequestPhase)
_VERBS = "|".join(RequestVerb)
_AT = rf"at {_TIME}"
_LATER = rf"{_TIME} later"
_READY = rf"(?:{_TIME} )?after {_NTH} READY of (?P<node>[^/\s]+)"
_REQUEST = (
    rf"(?P<phase>{_PHASES}) {_NTH} (?P<verb>{_VERBS}) of (?P<target>[^/\s]+/.*?|\*)"
    r"(?: by (?P<by>[^/\s]+/(?:\d{1,4}|\*)|\*))?"
)
_STEP = rf"at step (?P<step>\d{{1,12}}) of {_WORKER}"
_LINE = rf'at line "(?P<pattern>.+)" of {_WORKER}'
_PREEMPT = rf"preempt (?P<node>[^/\s]+)(?: with notice of {_TIME}|(?P<none> without notice))?"


def check(key: str, value: Any) -> None:
    """Check the timeline of a scenario; raises ScenarioError."""
    if not isinstance(value, list | tuple):
        raise ScenarioError(f"scenario: {key} must be a list of entries")
    parse(value)


def parse(entries: Sequence[Any], taken: Iterable[str] = ()) -> tuple[TimelineEntry, ...]:
    """The entries, each before those that follow it; raises ScenarioError.

    An entry without a name gets one that is not `taken`: entry-1, entry-2, and so on.
    """
    found = _Entries(taken)
    found.add(entries, "", "")
    return tuple(found.entries)


class _Entries:
    """Collects the entries of one timeline."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.entries: list[TimelineEntry] = []
        self._names = set(taken)
        self._free = (f"entry-{number}" for number in count(1))

    def add(self, given: Sequence[Any], above: str, parent: str) -> None:
        """Add entries below the entry with that number (`2.1.`) and name; nothing at the top."""
        for position, each in enumerate(given, 1):
            number = f"{above}{position}"
            try:
                entry = self._entry(each, parent)
            except ScenarioError as error:
                reason = str(error).removeprefix("scenario: ")
                raise ScenarioError(f"scenario: timeline entry {number}: {reason}") from None
            self.entries.append(entry)
            if len(self.entries) > MOST_ENTRIES:
                raise ScenarioError(f"scenario: a timeline has at most {MOST_ENTRIES} entries")
            self.add(each.get("then") or (), f"{number}.", entry.name)

    def _entry(self, given: Any, parent: str) -> TimelineEntry:
        fields = _checked(given)
        do = fields["do"] if isinstance(fields["do"], list | tuple) else [fields["do"]]
        entry = entry_of("", fields["when"], do, parent=parent)
        for_s = _duration_s(fields.get("for"), entry.actions)
        return replace(entry, name=self._name(fields.get("name")), for_s=for_s)

    def _name(self, given: Any) -> str:
        if given is None:
            given = next(name for name in self._free if name not in self._names)
        if not isinstance(given, str) or not re.fullmatch(r"[\w.:/-]{1,100}", given):
            raise ScenarioError(
                f"name must be a text of letters, digits and . : / - _, not {_quoted(given)}"
            )
        if given in self._names:
            raise ScenarioError(f"the name {_quoted(given)} is taken")
        self._names.add(given)
        return given


def entry_of(
    name: str, when: str, do: Sequence[Any], for_s: float | None = None, parent: str = ""
) -> TimelineEntry:
    """The entry that is written so; raises ScenarioError."""
    trigger = parse_trigger(when, is_below=bool(parent))
    actions = tuple(parse_action(text) for text in do)
    return TimelineEntry(name, when, tuple(do), trigger, actions, for_s, parent)


def _checked(given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise ScenarioError(f"an entry maps {', '.join(KEYS)} to values, not {_quoted(given)}")
    for key in given:
        checks.check_known("", "key", key, KEYS)
    for key in ("when", "do"):
        if key not in given:
            raise ScenarioError(f"{key} is missing")
    if not isinstance(given["when"], str):
        raise ScenarioError(f"when must be a text, not {_quoted(given['when'])}")
    if not isinstance(given.get("then") or (), list | tuple):
        raise ScenarioError("then must be a list of entries")
    if not given["do"]:
        raise ScenarioError(f"do must name an action; as: {'; '.join(_DO_EXAMPLES)}")
    return given


def _duration_s(given: Any, actions: Iterable[EntryAction]) -> float | None:
    if given is None:
        return None
    if not any(isinstance(action, FaultBegin) for action in actions):
        raise ScenarioError("for says how long a fault lasts, and do has no fault")
    match = re.fullmatch(_TIME, given) if isinstance(given, str) else None
    if match is None:
        raise ScenarioError(f"for must be a time such as 30s or 2m, not {_quoted(given)}")
    return _time_s(match)


def parse_action(text: Any) -> EntryAction:
    """What a text of `do` means; raises ScenarioError."""
    if not isinstance(text, str):
        raise ScenarioError(f"do must be texts, not {_quoted(text)}")
    if text == "nothing":
        return Nothing()
    word, _, rest = text.partition(" ")
    if word == "preempt":
        return _preemption(text)
    if ":" not in text:
        raise ScenarioError(f"do {_quoted(text)} is not understood; as: {'; '.join(_DO_EXAMPLES)}")
    if word == "end":
        fault_texts.parse(rest)
        return FaultEnd(rest)
    fault_texts.parse(text)
    return FaultBegin(text)


def _preemption(text: str) -> Preemption:
    match = re.fullmatch(_PREEMPT, text)
    if match is None:
        raise ScenarioError(
            f"do {_quoted(text)} is not understood; as: preempt NODE, "
            "preempt NODE with notice of 30s, preempt NODE without notice"
        )
    if match["time"]:
        return Preemption(match["node"], _time_s(match))
    return Preemption(match["node"], 0.0 if match["none"] else None)


def parse_trigger(text: str, *, is_below: bool) -> Trigger:
    """What a text of `when` means; `is_below`: it follows another entry. Raises ScenarioError."""
    for pattern, trigger in _TRIGGERS.items():
        if match := re.fullmatch(pattern, text):
            if pattern == _LATER and not is_below:
                raise ScenarioError(
                    f"when {_quoted(text)} is for entries below then; at the top: "
                    f"at {match['time']}"
                )
            if match.groupdict().get("nth") == "0":
                raise ScenarioError(f"when {_quoted(text)} counts from 1st")
            return trigger(match)
    raise ScenarioError(f"when {_quoted(text)} is not understood; as: {'; '.join(_EXAMPLES)}")


def _request(match: re.Match[str]) -> Trigger:
    return RequestTrigger(
        RequestPhase(match["phase"]),
        int(match["nth"]),
        RequestVerb(match["verb"]),
        match["target"],
        match["by"],
    )


def _line(match: re.Match[str]) -> Trigger:
    try:
        re.compile(match["pattern"])
    except re.error as error:
        raise ScenarioError(f"{_quoted(match['pattern'])} is not an expression: {error}") from None
    return LineTrigger(match["pattern"], match["worker"])


_TRIGGERS: Mapping[str, Callable[[re.Match[str]], Trigger]] = {
    _AT: lambda match: TimeTrigger(_time_s(match)),
    _LATER: lambda match: TimeTrigger(_time_s(match)),
    _READY: lambda match: ReadyTrigger(match["node"], int(match["nth"]), _time_s(match)),
    _STEP: lambda match: LineTrigger(rf"\bstep[ =:]*{int(match['step'])}\b", match["worker"]),
    _LINE: _line,
    _REQUEST: _request,
}


def _time_s(match: re.Match[str]) -> float:
    return fault_texts.time_s(match["time"]) if match["time"] else 0.0


def as_written(entries: Iterable[TimelineEntry]) -> Iterator[dict[str, Any]]:
    """Entries as they are written, but flat: each with the name of its `parent`."""
    for entry in entries:
        yield {
            "name": entry.name,
            "when": entry.when,
            "do": list(entry.do),
            "for_s": entry.for_s,
            "parent": entry.parent,
        }


def _quoted(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 200 else f"{shown[:200]}…"
