"""What is repeated, how often, and what a lost reply is worth."""

from random import Random

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2
from grpc import StatusCode

from tpuctl.api.tpu import retry, tpu_rest
from tpuctl.api.tpu.rpc_errors import DETAILS_KEY, translate_errors
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
from tpuctl.retry_after import LONGEST_ASKED_PAUSE_S


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


class Asking(Refused):
    """A refusal that says how long to wait, by RetryInfo."""

    def __init__(self, delay):
        super().__init__(StatusCode.UNAVAILABLE)
        self.delay = delay

    def trailing_metadata(self):
        status = status_pb2.Status()
        status.details.add().Pack(error_details_pb2.RetryInfo(retry_delay=self.delay))
        return ((DETAILS_KEY, status.SerializeToString()),)


def http_refusal(retry_after):
    return tpu_rest.refusal(503, {"error": {"status": "UNAVAILABLE"}}, retry_after)


@pytest.mark.parametrize(
    ("refusal", "least_s"),
    [
        (Asking(Duration(seconds=7, nanos=500_000_000)), 7.5),
        (Asking(Duration(seconds=86_400)), LONGEST_ASKED_PAUSE_S),
        (Asking(Duration(seconds=-5)), 0.0),
        (http_refusal("7"), 7.0),
        (http_refusal("Fri, 31 Dec 2999 23:59:59 GMT"), LONGEST_ASKED_PAUSE_S),
        (http_refusal("soon"), 0.0),
        (http_refusal(""), 0.0),
    ],
)
def test_the_service_says_how_long_to_wait_within_bounds(refusal, least_s):
    answers, pauses = [refusal], []

    def call(_deadline_s):
        if answers:
            raise answers.pop()
        return "reply"

    assert retry.call_with_retries(call, TPU_READ, sleep=pauses.append, random=Random(1)) == "reply"
    (pause_s,) = pauses
    assert least_s <= pause_s <= least_s + LONGEST_PAUSE_S


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
