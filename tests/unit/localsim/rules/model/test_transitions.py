"""The state machines, read as tables."""

import pytest

from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.rules.model.nodes import NODE_TRANSITIONS, NodeEvent, NodeState
from localsim.rules.model.queued_resources import REQUEST_TRANSITIONS, RequestEvent, RequestState
from localsim.rules.model.transitions import next_state


def edges(table) -> set[str]:
    return {
        f"{state} -{event}-> {following}"
        for state, allowed in table.items()
        for event, following in allowed.items()
    }


def test_the_life_of_a_node():
    deletable = set(NodeState) - {"DELETING"}
    coming_back = {"RESTARTING", "REPAIRING"}
    up_or_coming_back = {"READY", *coming_back}
    assert edges(NODE_TRANSITIONS) == {
        "CREATING -boot-> READY",
        "READY -boot-> READY",
        "READY -update-> READY",
        "READY -stop-> STOPPING",
        "STOPPING -stopped-> STOPPED",
        "STOPPED -start-> STARTING",
        "STARTING -boot-> READY",
        "STARTING -fail to boot-> STOPPED",
        "READY -restart-> RESTARTING",
        "READY -repair-> REPAIRING",
    } | {f"{state} -boot-> READY" for state in coming_back} | {
        f"{state} -fail to boot-> UNKNOWN" for state in coming_back
    } | {f"{state} -preempt-> PREEMPTED" for state in up_or_coming_back} | {
        f"{state} -expire-> TERMINATED" for state in up_or_coming_back
    } | {f"{state} -delete-> DELETING" for state in deletable}


def test_the_life_of_a_queued_resource():
    by_force = {"ACCEPTED", "WAITING_FOR_RESOURCES", "ACTIVE", "SUSPENDING", "SUSPENDED", "FAILED"}
    assert edges(REQUEST_TRANSITIONS) == {
        "CREATING -accept-> ACCEPTED",
        "CREATING -fail-> FAILED",
        "ACCEPTED -wait-> WAITING_FOR_RESOURCES",
        "ACCEPTED -provision-> PROVISIONING",
        "ACCEPTED -fail-> FAILED",
        "WAITING_FOR_RESOURCES -provision-> PROVISIONING",
        "WAITING_FOR_RESOURCES -fail-> FAILED",
        "PROVISIONING -activate-> ACTIVE",
        "PROVISIONING -fail-> FAILED",
        "ACTIVE -lose node-> SUSPENDING",
        "ACTIVE -reset-> ACCEPTED",
        "SUSPENDING -suspend-> SUSPENDED",
        "SUSPENDED -reset-> ACCEPTED",
    } | {f"{state} -delete with force-> DELETING" for state in by_force} | {
        f"{state} -delete-> DELETING" for state in by_force - {"ACTIVE", "SUSPENDING"}
    }


def test_every_state_has_its_row():
    assert set(NODE_TRANSITIONS) == set(NodeState)
    assert set(REQUEST_TRANSITIONS) == set(RequestState)


def test_what_the_table_lacks_is_refused():
    with pytest.raises(CloudError) as refusal:
        next_state(NODE_TRANSITIONS, "n", NodeState.CREATING, NodeEvent.STOP)
    assert refusal.value.code == Code.FAILED_PRECONDITION
    assert refusal.value.message.startswith(
        "'stop' of 'n' is not supported while in state CREATING. [EID: 0x"
    )
    with pytest.raises(CloudError, match="'delete' of 'q' is not supported while in state ACTIVE"):
        next_state(REQUEST_TRANSITIONS, "q", RequestState.ACTIVE, RequestEvent.DELETE)
