"""A timeline as it is written: what each text means, and what is said of a wrong one."""

import pytest

from localsim.rules.scenario.scenario import Scenario, ScenarioError
from localsim.rules.scenario.timeline_texts import parse, parse_action, parse_trigger
from localsim.rules.scenario.timeline_types import (
    FaultBegin,
    FaultEnd,
    LineTrigger,
    Nothing,
    Preemption,
    ReadyTrigger,
    RequestPhase,
    RequestTrigger,
    RequestVerb,
    TimeTrigger,
)

RUNS = "local-bucket/runs/*"


@pytest.mark.parametrize(
    ("text", "trigger"),
    [
        ("at 90s", TimeTrigger(90)),
        ("10m later", TimeTrigger(600)),
        ("after 1st READY of train-*", ReadyTrigger("train-*", 1)),
        ("20s after 2nd READY of a", ReadyTrigger("a", 2, 20)),
        (
            f"before 1st upload of {RUNS}",
            RequestTrigger(RequestPhase.BEFORE, 1, RequestVerb.UPLOAD, RUNS),
        ),
        (
            f"at the first byte of 3rd download of {RUNS} by train-*/2",
            RequestTrigger(RequestPhase.FIRST_BYTE, 3, RequestVerb.DOWNLOAD, RUNS, "train-*/2"),
        ),
        (
            f"in the middle of 12th upload of {RUNS} by *",
            RequestTrigger(RequestPhase.MIDDLE, 12, RequestVerb.UPLOAD, RUNS, "*"),
        ),
        (
            "after 1st copy of b/a name by hand",
            RequestTrigger(RequestPhase.AFTER, 1, RequestVerb.COPY, "b/a name by hand"),
        ),
        ("at step 40 of train-*/0", LineTrigger(r"\bstep[ =:]*40\b", "train-*/0")),
        ('at line "saved .* ok" of a/*', LineTrigger("saved .* ok", "a/*")),
    ],
)
def test_when(text, trigger):
    assert parse_trigger(text, is_below=True) == trigger


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("preempt train-*", Preemption("train-*")),
        ("preempt train-* without notice", Preemption("train-*", 0.0)),
        ("preempt a with notice of 5s", Preemption("a", 5.0)),
        ("worker a/1: hangs", FaultBegin("worker a/1: hangs")),
        ("end worker a/1: hangs", FaultEnd("worker a/1: hangs")),
        ("storage.*: return-503", FaultBegin("storage.*: return-503")),
        ("nothing", Nothing()),
    ],
)
def test_do(text, action):
    assert parse_action(text) == action


def test_entries_come_before_those_that_follow_them():
    again = {"name": "again", "when": "10s later", "do": "preempt a"}
    kill = {"name": "kill", "when": "at 1s", "do": ["preempt a", "nothing"], "then": [again]}
    entries = parse([kill, {"when": "at 2s", "do": "nothing"}])
    assert [(each.name, each.parent) for each in entries] == [
        ("kill", ""),
        ("again", "kill"),
        ("entry-1", ""),
    ]


def test_names_that_are_taken_are_not_given_again():
    (entry,) = parse([{"when": "at 2s", "do": "nothing"}], taken=["entry-1"])
    assert entry.name == "entry-2"


NOTHING = {"when": "at 1s", "do": "nothing"}
WRONG = (
    ("x", "entry 1: an entry maps name, when, do, for, then to values, not 'x'"),
    ({"do": "nothing"}, "entry 1: when is missing"),
    ({"when": "at 1s"}, "entry 1: do is missing"),
    ({"when": "at 1s", "do": []}, "entry 1: do must name an action; as: preempt train-*"),
    ({**NOTHING, "wen": 1}, "entry 1: unknown key 'wen'; nearest: when"),
    ({**NOTHING, "when": 3}, "entry 1: when must be a text, not 3"),
    ({**NOTHING, "when": "soon"}, "entry 1: when 'soon' is not understood; as: at 90s"),
    ({**NOTHING, "when": "5s later"}, "is for entries below then; at the top: at 5s"),
    ({**NOTHING, "when": "before 0th list of b/*"}, "counts from 1st"),
    ({**NOTHING, "when": 'at line "(" of a/0'}, "entry 1: '(' is not an expression"),
    ({**NOTHING, "do": "preempt"}, "preempt NODE with notice of 30s, preempt NODE without notice"),
    ({**NOTHING, "do": "stop it"}, "entry 1: do 'stop it' is not understood"),
    ({**NOTHING, "do": "worker a/1: sings"}, "unknown trouble 'sings'"),
    ({**NOTHING, "for": "5s"}, "entry 1: for says how long a fault lasts, and do has no fault"),
    (
        {"when": "at 1s", "do": "worker a/1: hangs", "for": 5},
        "entry 1: for must be a time such as 30s or 2m, not 5",
    ),
    ({**NOTHING, "name": "a b"}, "entry 1: name must be a text of letters"),
    ({**NOTHING, "then": [NOTHING, {"when": "at 1s"}]}, "entry 1.2: do is missing"),
)  # fmt: skip


@pytest.mark.parametrize(("entry", "message"), WRONG)
def test_a_wrong_entry_is_named_by_its_number(entry, message):
    with pytest.raises(ScenarioError) as refused:
        Scenario.from_mapping({"timeline": [entry]})
    assert str(refused.value).startswith("scenario: timeline entry 1")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_name_is_given_once():
    twice = [{**NOTHING, "name": "a"}, {**NOTHING, "name": "a"}]
    with pytest.raises(ScenarioError, match="timeline entry 2: the name 'a' is taken"):
        Scenario.from_mapping({"timeline": twice})


def test_a_timeline_is_a_list():
    with pytest.raises(ScenarioError, match="timeline must be a list of entries"):
        Scenario.from_mapping({"timeline": {"when": "at 1s"}})
