"""Which deadline and which retries each call of the Cloud TPU API has.

The API's clients come without a default deadline and without a default retry. A call is repeated
only where repeating cannot do the thing twice: reads, deletions (gone is gone), and what carries a
request id.
"""

from collections.abc import Callable
from random import Random
from typing import TypeVar

from grpc import RpcError, StatusCode

from tpuctl.api.tpu.rpc_errors import asked_pause_of
from tpuctl.network_policy import (
    TPU_ASIDE,
    TPU_CHANGE_ONCE,
    TPU_DELETION,
    TPU_READ,
    TPU_REPEATABLE_CHANGE,
    CallPolicy,
    jittered_pause_s,
)
from tpuctl.retry_after import LONGEST_ASKED_PAUSE_S

T = TypeVar("T")

TRANSIENT = frozenset({StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED, StatusCode.ABORTED})

POLICIES = {
    "ListNodes": TPU_READ,
    "GetNode": TPU_READ,
    "CreateNode": TPU_CHANGE_ONCE,
    "DeleteNode": TPU_DELETION,
    "StopNode": TPU_CHANGE_ONCE,
    "StartNode": TPU_CHANGE_ONCE,
    "UpdateNode": TPU_REPEATABLE_CHANGE,
    "ListQueuedResources": TPU_READ,
    "GetQueuedResource": TPU_READ,
    "CreateQueuedResource": TPU_REPEATABLE_CHANGE,
    "DeleteQueuedResource": TPU_DELETION,
    "ResetQueuedResource": TPU_CHANGE_ONCE,
    "GetGuestAttributes": TPU_READ,
    "GetOperation": TPU_READ,
    "ListOperations": TPU_READ,
    "ListLocations": TPU_READ,
    "ListAcceleratorTypes": TPU_ASIDE,
    "ListReservations": TPU_ASIDE,
}


def policy(method: str, request: object) -> CallPolicy:
    """The policy of a call; one with a `request_id` is done once, however often it is sent."""
    return TPU_REPEATABLE_CHANGE if getattr(request, "request_id", "") else POLICIES[method]


def call_with_retries(
    call: Callable[[float], T],
    policy: CallPolicy,
    *,
    sleep: Callable[[float], None],
    random: Random,
) -> T | None:
    """Call with the attempt's deadline; wait between attempts, with full jitter.

    What the service asks for is waited at least, up to LONGEST_ASKED_PAUSE_S.

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
            asked_s = min(LONGEST_ASKED_PAUSE_S, asked_pause_of(error))
        sleep(asked_s + jittered_pause_s(attempt, random=random))
    return None
