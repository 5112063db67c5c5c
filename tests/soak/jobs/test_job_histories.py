"""Random histories of a job: it ends as it should, creates nothing twice, and leaves nothing."""

import multiprocessing
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, fields

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from soak.jobs.world.job_fates import KINDS, LOSSES, NEVER_S, Event
from soak.jobs.world.job_histories import History, reproducer, tell
from soak.jobs.world.job_training import Program

AT_S = st.integers(0, 150)
MOST_LOSSES = 2
"""Workers that a history loses: a slice that keeps losing them ends its job."""


ABANDON = st.sampled_from([True])
FIRST, AT_ONCE, YES = st.just(0), st.just(0.0), st.booleans().filter(bool)


def event(kind, number=FIRST, for_s=AT_ONCE):
    return st.builds(Event, at_s=AT_S.map(float), kind=st.just(kind), number=number, for_s=for_s)


def times(*values):
    return st.sampled_from([float(value) for value in values])


NUMBER = st.integers(0, 3)
SEAT = st.integers(0, 1)
FAULTY_S = times(3, 20, 90)
EVENTS = {
    "preempted": event("preempted", NUMBER, times(0, 0, 5, 25)),
    "worker dies": event("worker dies", NUMBER),
    "worker reboots": event("worker reboots", NUMBER, times(2, 40, 100)),
    "worker is cut off": event("worker is cut off", NUMBER, times(4, 20, 70, 200)),
    "agent dies": event("agent dies", NUMBER),
    "supervisor dies": event("supervisor dies", SEAT, times(0.5, 5, 60, NEVER_S)),
    "supervisor stops": event("supervisor stops", SEAT, times(3, 25, 45, 400)),
    "supervisor dies at call": event("supervisor dies at call", st.integers(0, 60), times(0.5, 60)),
    "supervisor stops at call": event(
        "supervisor stops at call", st.integers(0, 60), times(10, 45, 400)
    ),
    "supervisor dies after call": event(
        "supervisor dies after call", st.integers(0, 60), times(0.5, 60)
    ),
    "supervisor stops after call": event(
        "supervisor stops after call", st.integers(0, 60), times(10, 45, 400)
    ),
    "call refused": event("call refused", st.integers(0, 60)),
    "call answer lost": event("call answer lost", st.integers(0, 60)),
    "second supervisor": event("second supervisor"),
    "clock jumps": event("clock jumps", NUMBER, times(50, 4000, 1e6)),
    "stock-out": event("stock-out", for_s=times(10, 100, 300)),
    "cancelled": event("cancelled"),
    "slice deleted": event("slice deleted"),
    **{
        kind: event(kind, NUMBER, FAULTY_S)
        for kind in KINDS
        if kind.startswith(("storage", "cloud"))
    },
}
RARE = ("cancelled", "slice deleted")
USUAL = [each for kind, each in EVENTS.items() if kind not in RARE]
SEVERAL = st.lists(st.one_of(USUAL), max_size=6)
ONE_LAST = st.one_of(st.none(), st.none(), st.none(), *(EVENTS[kind] for kind in RARE))
PROGRAMS = st.sampled_from(
    [
        *[Program()] * 4,
        Program(steps=40, save_every=7),
        Program(saves_on_term=False, ends_well_on_term=True),
        Program(crashes_at=8),
        Program(fails_once_at=12),
        Program(setup_fails=True),
    ]
)


def when(each):
    return each.at_s


def switch_lives(events):
    """The switch lives on worker 0 and dies with it: what is left then is found by people."""
    return not any(each.kind == "worker dies" for each in events)


def few_losses(events):
    return sum(each.kind in LOSSES for each in events) <= MOST_LOSSES


HISTORIES = st.builds(
    History,
    seed=st.integers(0, 1000),
    workers=st.sampled_from([1, 2, 4]),
    own=st.sampled_from([True, True, True, False]),
    provisioning_s=times(5, 20, 60),
    program=PROGRAMS,
    at_once=st.sampled_from([1, 1, 2, 3]),
    zones_out_s=st.sampled_from([(), (), (40.0,), (0.0, 40.0, 90.0)]),
    events=st.builds(
        lambda several, last: tuple(sorted([*several, *([last] if last else [])], key=when)),
        SEVERAL.filter(few_losses),
        ONE_LAST,
    ),
)


STOPS = st.one_of(
    event("supervisor stops", FIRST, times(45, 120)),
    event("supervisor stops at call", st.integers(0, 20), times(45, 120)),
    event("supervisor stops after call", st.integers(0, 20), times(45, 120)),
)
MEANWHILE = st.one_of(
    [EVENTS[kind] for kind in ("preempted", "worker reboots", "agent dies", "worker dies")]
)
STOPPED = st.builds(
    History,
    seed=st.integers(0, 1000),
    workers=st.sampled_from([1, 2]),
    own=st.sampled_from([True, True, False]),
    provisioning_s=times(5, 20),
    program=st.sampled_from([Program(), Program(steps=60), Program(fails_once_at=12)]),
    events=st.builds(
        lambda stop, others: tuple(
            sorted([Event(1.0, "second supervisor"), stop, *others], key=when)
        ),
        STOPS,
        st.lists(MEANWHILE, min_size=1, max_size=2),
    ),
)
"""A supervisor stands still for longer than its lease while another goes on, and continues."""
ABANDONED = st.builds(
    History,
    seed=st.integers(0, 1000),
    workers=st.sampled_from([1, 2]),
    provisioning_s=times(5, 20, 60),
    program=PROGRAMS,
    events=SEVERAL.filter(few_losses)
    .filter(switch_lives)
    .map(lambda several: tuple(sorted(several, key=when))),
    is_abandoned=ABANDON,
    at_once=st.sampled_from([1, 2]),
)
TWO_SLICES = st.builds(
    History,
    seed=st.integers(0, 1000),
    workers=st.sampled_from([1, 2]),
    slices=st.just(2),
    program=PROGRAMS,
    events=SEVERAL.filter(few_losses).map(lambda several: tuple(sorted(several, key=when))),
)


KINDS_OF_HISTORIES = {
    "any": HISTORIES,
    "stopped": STOPPED,
    "abandoned": ABANDONED,
    "two slices": TWO_SLICES,
}
SHARDS = [
    (kind, 100) for kind in ["any"] * 5 + ["stopped"] * 2 + ["abandoned"] * 2 + ["two slices"]
]


@dataclass
class Figures:
    """What came of many histories."""

    histories: int = 0
    double_creates: int = 0
    leaked_usd: float = 0.0
    usd: float = 0.0
    wrong: int = 0
    virtual_s: float = 0.0
    attempts: int = 0
    struck: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)

    def add(self, told):
        self.histories += 1
        self.double_creates += sum("double create" in each for each in told.wrong)
        self.leaked_usd += told.leaked_usd
        self.usd += told.usd
        self.wrong += bool(told.wrong)
        self.virtual_s += told.virtual_s
        self.attempts += len(told.record.attempts)
        self.struck += told.struck
        self.ends[str(told.record.state)] += 1

    def __add__(self, other):
        return Figures(
            **{
                each.name: getattr(self, each.name) + getattr(other, each.name)
                for each in fields(self)
            }
        )


def told(kind, examples, number):
    """Figures of random histories of one kind; the first that goes wrong is told with its seed."""
    figures = Figures()

    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(KINDS_OF_HISTORIES[kind])
    def history_is_right(history):
        found = tell(history)
        figures.add(found)
        assert not found.wrong, "\n".join([*found.wrong, reproducer(history)])

    history_is_right()
    return figures


@pytest.mark.parametrize(
    ("kind", "examples"), [("any", 12), ("stopped", 8), ("abandoned", 6), ("two slices", 4)]
)
def test_a_few_histories_end_as_they_should(kind, examples):
    figures = told(kind, examples, 1)
    assert figures.histories >= examples
    assert figures.leaked_usd == figures.double_creates == 0


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_1000_histories_end_as_they_should():
    first = time.time_ns() % 1_000_000
    print(f"\nseeds {first} to {first + len(SHARDS) - 1}")
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        asked = [pool.submit(told, *shard, first + i) for i, shard in enumerate(SHARDS)]
    troubles = [str(each.exception()) for each in asked if each.exception()]
    figures = sum((each.result() for each in asked if not each.exception()), Figures())
    print(figures)
    assert not troubles, "\n\n".join(troubles)
    assert figures.histories >= 1000
    assert figures.leaked_usd == figures.double_creates == figures.wrong == 0
    assert set(figures.struck) >= set(EVENTS), "some faults never struck"
