"""Random histories of calls, faults, time and restarts, beside a small model of what is right."""

import itertools
import sqlite3
import tempfile
import uuid
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from localsim import worker_specs
from localsim.clock import Clock
from localsim.rules.cloud import Cloud
from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.rules.model.events import BootSlice, StopSlice
from localsim.rules.scenario.scenario import Scenario
from soak.cloud import cloud_service
from soak.cloud.cloud_calls import NEVER_S, PARENT, REAL, WITH_REQUEST_ID, ZONE, real_create
from soak.cloud.cloud_model import Model
from soak.cloud.cloud_service import LARGE, SMALL, RefusedError

START_S = 1_800_000_000.0
SCENARIO = Scenario(
    acceptance_delay_s=cloud_service.ACCEPTANCE_S,
    provisioning_delay_s=cloud_service.PROVISIONING_S,
    deletion_delay_s=cloud_service.DELETION_S,
    suspension_delay_s=cloud_service.SUSPENSION_S,
    update_delay_s=cloud_service.UPDATE_S,
    capacity={ZONE: {SMALL: 2, LARGE: 1}},
    quota={"TPUV5sLitepodServingPerProjectPerZoneForTPUAPI": cloud_service.QUOTA_CHIPS},
)
node_ids = st.sampled_from(["a", "b", "q-node", "q-0", "q-1"])
beginnings = st.lists(
    st.sampled_from([("node", "a"), ("multislice", "q"), *(("request", each) for each in "qrs")]),
    max_size=4,
)
request_ids = st.sampled_from(["q", "r", "s"])
tiers = st.tuples(st.sampled_from([SMALL, SMALL, LARGE]), st.booleans())
windows = st.sampled_from([(0.0, NEVER_S), (0.0, NEVER_S), (7.5, NEVER_S), (0.0, 5.5), (0.0, 15.5)])


class History(RuleBasedStateMachine):
    """The simulated cloud and the model, told the same."""

    count = 0

    def __init__(self):
        super().__init__()
        History.count += 1
        self.directory = tempfile.TemporaryDirectory()
        self.clock = Clock(manual_start_s=START_S)
        self.model = Model(START_S)
        self.names = {}
        self.said = []
        self.ids = itertools.count(1)
        self.open()
        self.cloud.begin_scenario()

    def open(self):
        path = Path(self.directory.name) / "state.sqlite"
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA synchronous = OFF")  # no power is cut here
        self.cloud = Cloud(
            self.connection, self.clock, project="demo", project_number=7, scenario=SCENARIO
        )
        self.settle()

    def teardown(self):
        self.connection.close()
        self.directory.cleanup()

    @initialize(made=beginnings, slices=st.integers(1, 3), spot=st.booleans())
    def begin(self, made, slices, spot):
        """Most histories are of something that is up already, or waits."""
        self.set_capacity(SMALL, slices)
        for kind, name in made:
            if kind == "node":
                self.create_node(name, (SMALL, spot))
            elif kind == "request":
                self.create_request(name, f"{name}-node", (SMALL, spot), (0.0, NEVER_S))
            else:
                self.create_multislice(name, spot, (0.0, NEVER_S))
            self.pass_time(1.0)
        self.pass_time(14.0)

    # Calls

    @rule(node_id=node_ids, tier=tiers)
    def create_node(self, node_id, tier):
        self.call("create_node", node_id, tier, self.new_request_id())

    @rule(node_id=node_ids)
    def delete_node(self, node_id):
        self.call("delete_node", node_id, self.new_request_id())

    @rule(node_id=node_ids)
    def stop_node(self, node_id):
        self.call("stop_node", node_id)

    @rule(node_id=node_ids)
    def start_node(self, node_id):
        self.call("start_node", node_id)

    @rule(node_id=node_ids)
    def update_node(self, node_id):
        self.call("update_node", node_id, f"v{next(self.ids)}")

    @rule(request_id=request_ids, node_id=node_ids, tier=tiers, window=windows)
    def create_request(self, request_id, node_id, tier, window):
        sent = self.new_request_id()
        self.call("create_request", request_id, (node_id,), tier, window, sent)

    @rule(request_id=request_ids, spot=st.booleans(), window=windows)
    def create_multislice(self, request_id, spot, window):
        nodes = (f"{request_id}-0", f"{request_id}-1")
        sent = self.new_request_id()
        self.call("create_request", request_id, nodes, (SMALL, spot), window, sent)

    @rule(request_id=request_ids, how=st.sampled_from(["force", "gently"]))
    def delete_request(self, request_id, how):
        self.call("delete_request", request_id, how, self.new_request_id())

    @rule(request_id=request_ids)
    def reset_request(self, request_id):
        self.call("reset_request", request_id)

    @precondition(lambda self: self.said)
    @rule(data=st.data())
    def send_again(self, data):
        """The reply was lost: the same call with the same request id."""
        method, arguments = data.draw(st.sampled_from(self.said[-8:]))
        self.call(method, *arguments)

    @precondition(lambda self: self.names)
    @rule(data=st.data())
    def cancel(self, data):
        operation = data.draw(st.sampled_from(sorted(self.names)[-8:]))
        self.cloud.cancel_operation(self.names[operation])
        self.model.cancel(operation)
        self.settle()

    # The service, the owner of the simulation, and time

    @rule(node_id=node_ids, notice_s=st.sampled_from([0.0, 6.5]))
    def preempt(self, node_id, notice_s):
        self.call("preempt", node_id, notice_s)

    @rule(kind=st.sampled_from([SMALL, LARGE]), slices=st.integers(0, 3))
    def set_capacity(self, kind, slices):
        self.cloud.change_scenario({"capacity": {ZONE: {kind: slices}}})
        self.model.set_capacity(kind, slices)
        self.settle()

    @rule(seconds=st.sampled_from([0.0, 0.25, 1.0, 3.0, 4.75, 11.0, 11.0, 40.0]))
    def pass_time(self, seconds):
        self.clock.advance(seconds)
        self.model.advance(seconds)
        self.settle()

    @rule()
    def pass_enough_time_for_a_boot(self):
        self.pass_time(14.0)

    @rule()
    def restart(self):
        self.connection.close()
        self.open()

    @rule(node_id=node_ids, tier=tiers)
    def fill_the_disk(self, node_id, tier):
        """A call whose flush fails has not happened; a refusal needs no disk."""
        self.connection.execute("PRAGMA query_only = 1")
        try:
            real_create(self.cloud, node_id, tier, "")
        except CloudError as error:
            assert error.code in (Code.UNAVAILABLE, Code.ALREADY_EXISTS, Code.RESOURCE_EXHAUSTED)
        else:
            raise AssertionError("acknowledged without the disk")
        finally:
            self.connection.execute("PRAGMA query_only = 0")

    # The comparison

    @invariant()
    def the_cloud_is_as_it_should_be(self):
        assert self.nodes() == {
            name: (node.state, node.label, node.owner) for name, node in self.model.nodes.items()
        }
        assert self.requests() == {
            name: (request.state, request.initiator, request.failure)
            for name, request in self.model.requests.items()
        }
        assert {each: self.outcome(name) for each, name in self.names.items()} == {
            each: self.model.outcomes[each] for each in self.names
        }

    def nodes(self):
        found = self.cloud.list_nodes(PARENT).items
        addresses = [address for node in found for address in node.addresses]
        assert len(addresses) == len(set(addresses))
        assert [node.name for node in found] == sorted(node.name for node in found)
        return {
            node.node_id: (
                node.state,
                node.spec.labels.get("label", ""),
                node.queued_resource.rpartition("/")[2],
            )
            for node in found
        }

    def requests(self):
        return {
            each.name.rpartition("/")[2]: (
                each.state,
                each.initiator,
                each.failure.code if each.failure else None,
            )
            for each in self.cloud.list_queued_resources(PARENT).items
        }

    def outcome(self, name):
        operation = self.cloud.get_operation(name)
        if operation.failure is not None:
            return operation.failure.code
        return cloud_service.OK if operation.is_done else None

    def call(self, method, *arguments):
        """The same call to both: both refuse it with the same code, or both take it."""
        expected = attempt(getattr(self.model, method), *arguments)
        found = attempt(REAL[method], self.cloud, *arguments)
        if isinstance(expected, RefusedError) or isinstance(found, CloudError):
            assert getattr(found, "code", found) == getattr(expected, "code", expected)
        elif expected is not None:
            assert self.names.setdefault(expected, found.name) == found.name
            if isinstance(arguments[-1], str) and method in WITH_REQUEST_ID:
                self.said.append((method, arguments))
        self.settle()

    def settle(self):
        """The workers do at once what they are asked to."""
        self.model.advance(0.0)
        while events := self.cloud.tick():
            for event in events:
                if isinstance(event, BootSlice):
                    known = worker_specs.absent_identities(event.node)
                    self.cloud.mark_slice_booted(event.node.name, known)
                if isinstance(event, StopSlice):
                    self.cloud.mark_slice_stopped(event.node.name)

    def new_request_id(self):
        return str(uuid.UUID(int=next(self.ids)))


def attempt(call, *arguments):
    try:
        return call(*arguments)
    except (CloudError, RefusedError) as error:
        return error


def compare(histories, calls):
    """Raises the first difference, made as short as can be; returns how many histories ran."""
    before = History.count
    run_state_machine_as_test(
        History,
        settings=settings(
            max_examples=histories,
            stateful_step_count=calls,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    return History.count - before


def test_some_histories_are_as_the_model_says():
    assert compare(histories=40, calls=30) >= 40


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_2000_histories_are_as_the_model_says():
    count = compare(histories=2000, calls=50)
    print(f"\n{count} histories, no difference")
    assert count >= 2000
