"""What is repeated, how often, and what a lost reply is worth."""

from random import Random

import grpc
import pytest
from grpc import StatusCode

from tpuctl.api.tpu import retry
from tpuctl.api.tpu.rpc_errors import translate_errors
from tpuctl.errors import (
    CapacityError,
    ConflictError,
    NotFoundError,
    OutcomeUnknownError,
    PermissionDeniedError,
    PreconditionError,
    TransientError,
    UsageError,
)
from tpuctl.network_policy import LONGEST_PAUSE_S, TPU_READ


class Refused(grpc.RpcError):
    def __init__(self, status):
        self.status = status

    def code(self):
        return self.status

    def details(self):
        return "first line\nsecond"


def attempts(answers, policy):
    """Call with scripted answers; what came of it, and the pauses between."""
    left, pauses = list(answers), []

    def call(_deadline_s):
        answer = left.pop(0)
        if isinstance(answer, StatusCode):
            raise Refused(answer)
        return answer

    found = retry.call_with_retries(call, policy, sleep=pauses.append, random=Random(1))
    assert left == []
    return found, pauses


def test_a_read_is_repeated_after_growing_pauses_with_jitter():
    found, pauses = attempts([StatusCode.UNAVAILABLE] * 4 + ["reply"], TPU_READ)
    assert found == "reply"
    assert len(pauses) == 4
    assert all(0 <= pause <= LONGEST_PAUSE_S for pause in pauses)


def test_a_change_without_a_request_id_is_sent_once():
    with pytest.raises(Refused):
        attempts([StatusCode.UNAVAILABLE], retry.POLICIES["CreateNode"])


def test_what_is_not_transient_is_not_repeated():
    with pytest.raises(Refused):
        attempts([StatusCode.PERMISSION_DENIED], TPU_READ)


def test_a_deletion_whose_reply_was_lost_finds_nothing_left():
    answers = [StatusCode.UNAVAILABLE, StatusCode.NOT_FOUND]
    assert attempts(answers, retry.POLICIES["DeleteNode"])[0] is None


def test_a_deletion_of_nothing_is_not_found():
    with pytest.raises(Refused):
        attempts([StatusCode.NOT_FOUND], retry.POLICIES["DeleteNode"])


@pytest.mark.parametrize(
    ("status", "read", "change"),
    [
        (StatusCode.INVALID_ARGUMENT, UsageError, UsageError),
        (StatusCode.NOT_FOUND, NotFoundError, NotFoundError),
        (StatusCode.ALREADY_EXISTS, ConflictError, ConflictError),
        (StatusCode.FAILED_PRECONDITION, PreconditionError, PreconditionError),
        (StatusCode.PERMISSION_DENIED, PermissionDeniedError, PermissionDeniedError),
        (StatusCode.RESOURCE_EXHAUSTED, CapacityError, CapacityError),
        (StatusCode.UNAVAILABLE, TransientError, OutcomeUnknownError),
        (StatusCode.DEADLINE_EXCEEDED, TransientError, OutcomeUnknownError),
        (StatusCode.UNKNOWN, TransientError, OutcomeUnknownError),
    ],
)
def test_every_refusal_is_one_of_ours(status, read, change):
    for changes, kind in ((False, read), (True, change)):
        with pytest.raises(kind) as caught, translate_errors("node 'n1'", changes=changes):
            raise Refused(status)
        lost = kind is OutcomeUnknownError
        may_be = " (it may have been done all the same)" if lost else ""
        assert str(caught.value) == f"node 'n1': first line{may_be}"
        assert type(caught.value) is kind
