"""The state machines, read as tables."""

import pytest

from localsim.cloud.errors import CloudError, Code
from localsim.cloud.nodes import NODE_TRANSITIONS, NodeEvent, NodeState
from localsim.cloud.queued_resources import REQUEST_TRANSITIONS, RequestEvent, RequestState
from localsim.cloud.transitions import follow


def edges(table) -> set[str]:
    return {
        f"{state} -{event}-> {following}"
        for state, allowed in table.items()
        for event, following in allowed.items()
    }


def test_the_life_of_a_node():
    deletable = {"CREATING", "READY", "STOPPING", "STOPPED", "STARTING", "PREEMPTED"}
    assert edges(NODE_TRANSITIONS) == {
        "CREATING -boot-> READY",
        "READY -boot-> READY",
        "READY -update-> READY",
        "READY -stop-> STOPPING",
        "STOPPING -stopped-> STOPPED",
        "STOPPED -start-> STARTING",
        "STARTING -boot-> READY",
        "STARTING -fail to boot-> STOPPED",
        "READY -preempt-> PREEMPTED",
    } | {f"{state} -delete-> DELETING" for state in deletable}


def test_the_life_of_a_queued_resource():
    by_force = {"ACCEPTED", "WAITING_FOR_RESOURCES", "ACTIVE", "SUSPENDED", "FAILED"}
    assert edges(REQUEST_TRANSITIONS) == {
        "CREATING -accept-> ACCEPTED",
        "ACCEPTED -wait-> WAITING_FOR_RESOURCES",
        "ACCEPTED -provision-> PROVISIONING",
        "ACCEPTED -fail-> FAILED",
        "WAITING_FOR_RESOURCES -provision-> PROVISIONING",
        "WAITING_FOR_RESOURCES -fail-> FAILED",
        "PROVISIONING -activate-> ACTIVE",
        "PROVISIONING -fail-> FAILED",
        "ACTIVE -lose node-> SUSPENDING",
        "SUSPENDING -suspend-> SUSPENDED",
    } | {f"{state} -delete with force-> DELETING" for state in by_force} | {
        f"{state} -delete-> DELETING" for state in by_force - {"ACTIVE"}
    }


def test_every_state_has_its_row():
    assert set(NODE_TRANSITIONS) == set(NodeState)
    assert set(REQUEST_TRANSITIONS) == set(RequestState)


def test_what_the_table_lacks_is_refused():
    with pytest.raises(CloudError) as refusal:
        follow(NODE_TRANSITIONS, "n", NodeState.CREATING, NodeEvent.STOP)
    assert refusal.value.code == Code.FAILED_PRECONDITION
    assert refusal.value.message.startswith(
        "'stop' of 'n' is not supported while in state CREATING. [EID: 0x"
    )
    with pytest.raises(CloudError, match="'delete' of 'q' is not supported while in state ACTIVE"):
        follow(REQUEST_TRANSITIONS, "q", RequestState.ACTIVE, RequestEvent.DELETE)
