"""One table of deadlines and retries for every call of the Cloud TPU API.

The API's clients come without a default deadline and without a default retry. A call is repeated
only where repeating cannot do the thing twice: reads, deletions (gone is gone), and what carries a
request id.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from grpc import RpcError, StatusCode

T = TypeVar("T")

TRANSIENT = frozenset({StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED, StatusCode.ABORTED})
BASE_S = 0.25
CAP_S = 8.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """At most `attempts` of at most `attempt_s` each."""

    attempt_s: float
    attempts: int
    gone_is_done: bool = False
    """Not found, after a reply that was lost, is what was wanted."""


READ = RetryPolicy(attempt_s=20.0, attempts=5)
REPEATABLE_CHANGE = RetryPolicy(attempt_s=30.0, attempts=5)
DELETION = RetryPolicy(attempt_s=30.0, attempts=5, gone_is_done=True)
CHANGE_ONCE = RetryPolicy(attempt_s=30.0, attempts=1)

POLICIES = {
    "ListNodes": READ,
    "GetNode": READ,
    "CreateNode": CHANGE_ONCE,
    "DeleteNode": DELETION,
    "StopNode": CHANGE_ONCE,
    "StartNode": CHANGE_ONCE,
    "UpdateNode": REPEATABLE_CHANGE,
    "ListQueuedResources": READ,
    "GetQueuedResource": READ,
    "CreateQueuedResource": REPEATABLE_CHANGE,
    "DeleteQueuedResource": DELETION,
    "ResetQueuedResource": CHANGE_ONCE,
    "GetGuestAttributes": READ,
    "GetOperation": READ,
    "ListLocations": READ,
}


def policy(method: str, request: object) -> RetryPolicy:
    """Of a call by its message: what says its `request_id` is done once, however often it comes."""
    return REPEATABLE_CHANGE if getattr(request, "request_id", "") else POLICIES[method]


def call_with_retries(
    call: Callable[[float], T],
    policy: RetryPolicy,
    *,
    sleep: Callable[[float], None],
    random: Random,
) -> T | None:
    """Call with the attempt's deadline; wait with full jitter between attempts.

    None when a repeated deletion finds nothing left to delete.
    """
    for attempt in range(1, policy.attempts + 1):
        try:
            return call(policy.attempt_s)
        except RpcError as error:
            status = error.code()
            if policy.gone_is_done and attempt > 1 and status == StatusCode.NOT_FOUND:
                return None
            if status not in TRANSIENT or attempt == policy.attempts:
                raise
        sleep(random.uniform(0, min(CAP_S, BASE_S * 2**attempt)))
    return None
