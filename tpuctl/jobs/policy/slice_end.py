"""What becomes of an attempt whose slice was taken away, by the service or by somebody."""

from dataclasses import dataclass

from tpuctl.jobs.policy.observation import ABSENT, WITHDRAWN
from tpuctl.models.job import Attempt, AttemptOutcome
from tpuctl.models.node import LOST_STATES, NodeState
from tpuctl.models.queued_resource import QueuedResourceState

SUSPENDED_REQUESTS = frozenset({QueuedResourceState.SUSPENDING, QueuedResourceState.SUSPENDED})
DELETED_REQUESTS = frozenset({ABSENT, WITHDRAWN, QueuedResourceState.DELETING})
DELETED_NODES = frozenset({ABSENT, NodeState.DELETING})


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """An outcome and its reason.

    With `is_gone` the slice is no longer there; a `final` one ends the job.
    """

    outcome: AttemptOutcome
    reason: str
    refusal: str = ""
    final: bool = False
    is_gone: bool = False
    first_worker: int | None = None


def end_by_request(attempt: Attempt, request: str | None) -> AttemptEnd | None:
    """The end of an attempt whose queued resource has this state; None while it is kept."""
    if request in SUSPENDED_REQUESTS:
        reason = f"queued resource {attempt.queued_resource} is {request}"
        return AttemptEnd(AttemptOutcome.PREEMPTED, reason, is_gone=True)
    if attempt.owned and request in DELETED_REQUESTS:
        reason = "somebody deleted its slice"
        return AttemptEnd(AttemptOutcome.PREEMPTED, reason, final=True, is_gone=True)
    return None


def end_by_slice(
    attempt: Attempt, node: str | None, request: str | None, node_ids: tuple[int, ...] = ()
) -> AttemptEnd | None:
    """The end of an attempt whose slice was taken away or made again; None while it is there."""
    if node in LOST_STATES:
        return AttemptEnd(AttemptOutcome.PREEMPTED, f"{_nodes(attempt)} is {node}", is_gone=True)
    if found := end_by_request(attempt, request):
        return found
    if node_ids and attempt.node_ids and node_ids != attempt.node_ids:
        # Same name, another node: what ran on it is gone.
        kind = AttemptOutcome.PREEMPTED if attempt.owned else AttemptOutcome.LOST
        return AttemptEnd(kind, f"{_nodes(attempt)} was created again", is_gone=attempt.owned)
    return _end_by_node(attempt, node, request)


def _end_by_node(attempt: Attempt, node: str | None, request: str | None) -> AttemptEnd | None:
    if attempt.queued_resource and request is None:
        return None  # it could not be asked: who took the node is not known yet
    if not attempt.owned and node in DELETED_NODES:
        reason = f"{_nodes(attempt)} is gone"
        return AttemptEnd(AttemptOutcome.PREEMPTED, reason, final=True, is_gone=True)
    if node == ABSENT:
        return AttemptEnd(AttemptOutcome.PREEMPTED, f"{_nodes(attempt)} is {node}", is_gone=True)
    return None


def _nodes(attempt: Attempt) -> str:
    return f"node {attempt.node}" if attempt.slices == 1 else f"a node of {attempt.node}"
