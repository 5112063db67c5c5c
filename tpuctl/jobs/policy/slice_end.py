"""What becomes of an attempt whose slice was taken away, by the service or by somebody."""

from dataclasses import dataclass

from tpuctl.jobs.policy.observed import ABSENT, WITHDRAWN
from tpuctl.models.job import Attempt, Outcome
from tpuctl.models.node import LOST_STATES, NodeState
from tpuctl.models.queued_resource import QueuedResourceState

SUSPENDED_REQUESTS = frozenset({QueuedResourceState.SUSPENDING, QueuedResourceState.SUSPENDED})
DELETED_REQUESTS = frozenset({ABSENT, WITHDRAWN, QueuedResourceState.DELETING})
DELETED_NODES = frozenset({ABSENT, NodeState.DELETING})


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome and its reason.

    With `notice`, the slice is still there for a moment; with `is_gone` it is not; a `final` one
    ends the job.
    """

    outcome: Outcome
    reason: str
    notice: bool = False
    refusal: str = ""
    final: bool = False
    is_gone: bool = False
    first_worker: int | None = None


def of_request(attempt: Attempt, request: str | None) -> Verdict | None:
    """What the state of a slice's queued resource means for it."""
    if request in SUSPENDED_REQUESTS:
        reason = f"queued resource {attempt.queued_resource} is {request}"
        return Verdict(Outcome.PREEMPTED, reason, is_gone=True)
    if attempt.owned and request in DELETED_REQUESTS:
        reason = "its slice was deleted by somebody"
        return Verdict(Outcome.PREEMPTED, reason, final=True, is_gone=True)
    return None


def of_slice(
    attempt: Attempt, node: str | None, request: str | None, node_ids: tuple[int, ...] = ()
) -> Verdict | None:
    """The slice itself was taken away: by the service, or by somebody who wants it gone."""
    if node in LOST_STATES:
        return Verdict(Outcome.PREEMPTED, f"{_nodes(attempt)} is {node}", is_gone=True)
    if found := of_request(attempt, request):
        return found
    if node_ids and attempt.node_ids and node_ids != attempt.node_ids:
        return _made_anew(attempt)
    return _of_node(attempt, node, request)


def _made_anew(attempt: Attempt) -> Verdict:
    """Same name, another node: what ran on it is gone."""
    kind = Outcome.PREEMPTED if attempt.owned else Outcome.LOST
    return Verdict(kind, f"{_nodes(attempt)} was made anew", is_gone=attempt.owned)


def _of_node(attempt: Attempt, node: str | None, request: str | None) -> Verdict | None:
    if attempt.queued_resource and request is None:
        return None  # it could not be asked: who took the node is not known yet
    if not attempt.owned and node in DELETED_NODES:
        reason = f"{_nodes(attempt)} is gone"
        return Verdict(Outcome.PREEMPTED, reason, final=True, is_gone=True)
    if node == ABSENT:
        return Verdict(Outcome.PREEMPTED, f"{_nodes(attempt)} is {node}", is_gone=True)
    return None


def _nodes(attempt: Attempt) -> str:
    return f"node {attempt.node}" if attempt.slices == 1 else f"a node of {attempt.node}"
