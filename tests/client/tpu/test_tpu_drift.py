"""Four clients and nodes that change under their hands: what each of them sees is so.

Nodes are deleted by somebody else, preempted, relabelled, made again under their names; zones stop
answering; lists have pages of two; calls of all clients meet. Nobody ever hears that a node is gone
which is there, and the answers to calls that meet are those of some order of the calls.
"""

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import ClassVar

import grpc
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from client.tpu.tpu_service import Service
from tpuctl.api.tpu import grpc_client
from tpuctl.api.tpu.tpu import TpuApi
from tpuctl.errors import (
    ConflictError,
    NotFoundError,
    OutcomeUnknownError,
    PreconditionError,
    TransientError,
)
from tpuctl.models.node import NodeSpec

pytest_plugins = ("client.tpu.tpu_fixtures",)

CLIENTS = 4
ZONES = ("us-west4-a", "us-central1-a")
KEYS = st.tuples(st.sampled_from(ZONES), st.sampled_from(("a", "b", "c")))
WHO = st.integers(0, CLIENTS - 1)
SETTLE_S, DETECTION_S = 3.0, 61.0
GONE, MAKING, GOING = "gone", "CREATING", "DELETING"
Key = tuple[str, str]


@dataclass(frozen=True)
class Fact:
    """What is so of one node."""

    state: str = "READY"
    labels: dict[str, str] = field(default_factory=dict)
    node_id: int = 0
    """0 until a client has seen it."""


class Drift(RuleBasedStateMachine):
    """A cloud, its four clients, and what is so."""

    service: ClassVar[Service]
    clients: ClassVar[list[TpuApi]]
    pool: ClassVar[ThreadPoolExecutor]

    def __init__(self):
        super().__init__()
        self.service.behave()
        self.facts: dict[Key, Fact] = {}
        self.away: set[str] = set()
        self.turns = itertools.cycle(range(CLIENTS))

    # ------------------------------------------------------------- what is done to nodes

    @rule(who=WHO, key=KEYS)
    def create(self, who, key):
        if key[0] in self.away:
            with pytest.raises(OutcomeUnknownError):
                self.begin(who, key)
        elif key in self.facts:
            with pytest.raises(ConflictError):
                self.begin(who, key)
        else:
            self.begin(who, key)
            self.facts[key] = Fact()
        self.service.advance(SETTLE_S)

    @precondition(lambda self: self.near())
    @rule(who=WHO, data=st.data())
    def delete_out_of_band(self, who, data):
        self.remove(who, data.draw(st.sampled_from(self.near())))

    @precondition(lambda self: self.near())
    @rule(who=WHO, data=st.data())
    def make_anew_under_the_same_name(self, who, data):
        key = data.draw(st.sampled_from(self.near()))
        before = self.clients[who].get_node(*key).node_id
        self.remove(who, key)
        self.begin(who, key)
        self.service.advance(SETTLE_S)
        after = self.clients[(who + 1) % CLIENTS].get_node(*key).node_id
        assert after != before
        self.facts[key] = Fact(node_id=after)

    @precondition(lambda self: self.near("READY"))
    @rule(data=st.data())
    def preempt(self, data):
        key = data.draw(st.sampled_from(self.near("READY")))
        self.service.preempt(f"projects/demo/locations/{key[0]}/nodes/{key[1]}")
        self.facts[key] = replace(self.facts[key], state="PREEMPTED")

    @precondition(lambda self: self.near("READY"))
    @rule(who=WHO, data=st.data(), value=st.sampled_from(("x", "y")))
    def edit_labels(self, who, data, value):
        key = data.draw(st.sampled_from(self.near("READY")))
        self.clients[who].update_node(*key, {"labels": {"team": value}})
        self.service.advance(SETTLE_S)
        self.facts[key] = replace(self.facts[key], labels={"team": value})

    @rule(zone=st.sampled_from(ZONES))
    def zone_stops_answering_or_answers_again(self, zone):
        self.away ^= {zone}
        change = {"unreachable": sorted(self.away)}
        self.service._on_loop(lambda: self.service.world.cloud.change_scenario(change))

    @precondition(lambda self: self.near("READY"))
    @rule(who=WHO, data=st.data())
    def a_worker_hangs_for_a_while(self, who, data):
        zone, name = data.draw(st.sampled_from(self.near("READY")))
        self.service.fault(f"worker {name}/0: hangs")
        self.service.advance(DETECTION_S)
        assert self.clients[who].get_node(zone, name).health == "TIMEOUT"
        self.service._on_loop(lambda: self.service.world.cloud.clear_faults())
        self.service.advance(DETECTION_S)
        assert self.clients[who].get_node(zone, name).health == "HEALTHY"

    @rule(key=KEYS, calls=st.lists(st.sampled_from(("create", "delete", "get", "list")),
                                   min_size=CLIENTS, max_size=CLIENTS))  # fmt: skip
    def calls_of_all_clients_meet(self, key, calls):
        """Time stands still meanwhile: the answers must be those of some order of the calls."""
        if key[0] in self.away:
            return
        begun = [self.pool.submit(self.answer, who, call, key) for who, call in enumerate(calls)]
        answers = list(zip(calls, (each.result() for each in begun), strict=True))
        fact = self.facts.get(key)
        ends = ends_of_some_order(fact.state if fact else GONE, answers)
        assert ends, f"no order of the calls explains {answers}"
        self.service.advance(SETTLE_S)
        seen = self.state(0, key)
        settled = {MAKING: "READY", GOING: GONE}
        assert seen in {settled.get(end, end) for end in ends}
        self.facts.setdefault(key, Fact())
        if seen == GONE:
            del self.facts[key]
        else:  # what follows must not depend on who was first
            self.remove(0, key)

    # ------------------------------------------------------------- what is seen

    @invariant()
    def every_client_sees_what_is_so(self):
        client = self.clients[next(self.turns)]
        nodes, unreachable = client.read_nodes()
        seen = {(node.zone, node.name): node for node in nodes}
        assert set(unreachable) == self.away
        assert len(seen) == len(nodes)
        assert set(seen) == {key for key in self.facts if key[0] not in self.away}
        for key, node in seen.items():
            fact = self.facts[key]
            assert (node.state, dict(node.labels)) == (fact.state, fact.labels)
            assert fact.node_id in (0, node.node_id)
            self.facts[key] = replace(fact, node_id=node.node_id)

    @rule(who=WHO, key=KEYS)
    def ask_for_one(self, who, key):
        if key[0] in self.away:
            with pytest.raises(TransientError):  # which is no word about the node
                self.clients[who].get_node(*key)
        else:
            fact = self.facts.get(key)
            assert self.state(who, key) == (fact.state if fact else GONE)

    # ------------------------------------------------------------- by hand

    def near(self, state: str | None = None) -> list[Key]:
        """The nodes in zones that answer."""
        return sorted(
            key
            for key, fact in self.facts.items()
            if key[0] not in self.away and state in (None, fact.state)
        )

    def begin(self, who: int, key: Key) -> None:
        zone, name = key
        spec = NodeSpec(name, zone, "v5litepod-4", "v2-alpha-tpuv5-lite", "spot")
        self.clients[who].create_node(spec, request_id="")

    def remove(self, who: int, key: Key) -> None:
        self.clients[who].delete_node(*key)
        self.service.advance(SETTLE_S)
        del self.facts[key]

    def state(self, who: int, key: Key) -> str:
        try:
            return self.clients[who].get_node(*key).state
        except NotFoundError:
            return GONE

    def listed(self, who: int, key: Key) -> str:
        nodes, _ = self.clients[who].list_nodes()
        return next((node.state for node in nodes if (node.zone, node.name) == key), GONE)

    def answer(self, who: int, call: str, key: Key) -> str:
        calls: dict[str, Callable[[], object]] = {
            "create": lambda: self.begin(who, key),
            "delete": lambda: self.clients[who].delete_node(*key),
            "get": lambda: self.state(who, key),
            "list": lambda: self.listed(who, key),
        }
        try:
            told = calls[call]()
            return told if isinstance(told, str) else "done"
        except (ConflictError, NotFoundError, PreconditionError) as error:
            return error.reason


def ends_of_some_order(state: str, answers: list[tuple[str, str]]) -> set[str]:
    """The states after each order of the calls in which the answers are right."""
    found = set()
    for order in set(itertools.permutations(answers)):
        now = state
        for call, told in order:
            now, expected = after(now, call)
            if told != expected:
                break
        else:
            found.add(now)
    return found


def after(state: str, call: str) -> tuple[str, str]:
    """The state after one call, and its answer."""
    if call == "create":
        return (MAKING, "done") if state == GONE else (state, "conflict")
    if call == "delete":
        refusals = {GONE: "not_found", GOING: "precondition_failed"}
        return (state, refusals[state]) if state in refusals else (GOING, "done")
    return state, state


@pytest.fixture
def machine(service, monkeypatch):
    """The state machine with its service and its clients."""
    monkeypatch.setattr(grpc_client, "PAGE_SIZE", 2)
    channels = [grpc.insecure_channel(f"127.0.0.1:{service.grpc_port}") for _ in range(CLIENTS)]
    with ThreadPoolExecutor(CLIENTS) as Drift.pool:
        Drift.service = service
        Drift.clients = [TpuApi(channel, "demo", sleep=lambda _: None) for channel in channels]
        yield Drift
    for channel in channels:
        channel.close()


@pytest.mark.parametrize(
    ("examples", "steps"),
    [(8, 10), pytest.param(2000, 15, marks=(pytest.mark.soak, pytest.mark.timeout(3600)))],
)
def test_nobody_hears_that_a_node_is_gone_which_is_there(machine, examples, steps):
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_an_order_that_explains_the_answers_is_found_and_no_other_one():
    assert ends_of_some_order(GONE, [("create", "done"), ("get", GONE)]) == {MAKING}
    assert ends_of_some_order(GONE, [("create", "done"), ("create", "done")]) == set()
    assert ends_of_some_order("READY", [("get", GONE), ("delete", "done")]) == set()
