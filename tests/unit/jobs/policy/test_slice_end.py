"""Who took a slice away decides whether another one is made."""

import pytest

from tpuctl.jobs.policy.observation import ABSENT, WITHDRAWN
from tpuctl.jobs.policy.slice_end import end_by_slice
from tpuctl.models.job import Attempt, AttemptState

SOMEBODY = ("somebody deleted its slice", True)
GONE = ("node n is gone", True)


@pytest.mark.parametrize(
    ("owned", "node", "request_state", "expected"),
    [
        (True, "READY", "ACTIVE", None),
        (True, "PREEMPTED", "ACTIVE", ("node n is PREEMPTED", False)),
        (True, ABSENT, "SUSPENDED", ("queued resource q is SUSPENDED", False)),
        (True, ABSENT, ABSENT, SOMEBODY),
        (True, "DELETING", WITHDRAWN, SOMEBODY),
        (True, "READY", "DELETING", SOMEBODY),
        (True, ABSENT, None, None),
        (False, "PREEMPTED", WITHDRAWN, ("node n is PREEMPTED", False)),
        (False, ABSENT, "SUSPENDED", ("queued resource q is SUSPENDED", False)),
        (False, ABSENT, ABSENT, GONE),
        (False, "DELETING", WITHDRAWN, GONE),
        (False, ABSENT, None, None),
    ],
)
def test_of_slice(owned, node, request_state, expected):
    attempt = Attempt(1, "z", "n", AttemptState.RUNNING, owned, queued_resource="q")
    found = end_by_slice(attempt, node, request_state)
    assert (found and (found.reason, found.final)) == expected


def test_a_node_without_a_queued_resource_that_is_absent_was_deleted_by_its_user():
    found = end_by_slice(Attempt(1, "z", "n", AttemptState.RUNNING, owned=False), ABSENT, None)
    assert (found.reason, found.final) == GONE
