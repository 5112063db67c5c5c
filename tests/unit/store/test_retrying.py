"""What is sent again, and how long is waited: a clock in the test's hand."""

import random
import ssl

import pytest
import requests
from google.api_core import exceptions as api
from google.auth import exceptions as auth

from tpuctl.network_policy import TransferPolicy
from tpuctl.store.gcs.backoff import Backoff, is_transient, run_with_retries


class Clock:
    def __init__(self):
        self.now_s = 0.0
        self.pauses = []

    def sleep(self, pause_s):
        self.pauses.append(pause_s)
        self.now_s += pause_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def attempts(clock):
    policy = TransferPolicy(silence_s=1.0, deadline_s=60.0)
    return Backoff(policy, sleep=clock.sleep, now=lambda: clock.now_s)


def answer(status, **headers):
    response = requests.Response()
    response.status_code = status
    response.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    return api.from_http_status(status, "no", response=response)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_transient_answers_are_tried_again(status):
    assert is_transient(answer(status))


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 412, 416, 501])
def test_final_answers_are_not(status, attempts, clock):
    with pytest.raises(api.GoogleAPICallError):
        attempts.wait(answer(status))
    assert clock.pauses == []


@pytest.mark.parametrize(
    "error", [requests.ConnectionError(), requests.Timeout(), ConnectionResetError()]
)
def test_lost_connections_are_tried_again(error):
    assert is_transient(error)


def test_the_random_numbers_of_the_program_are_its_own(attempts):
    random.seed(1)
    before = random.getstate()
    attempts.wait(answer(503))
    assert random.getstate() == before


def test_a_certificate_that_is_not_believed_is_final():
    try:
        try:
            raise ssl.SSLCertVerificationError("self-signed certificate")
        except ssl.SSLError as cause:
            raise requests.exceptions.SSLError("no") from cause
    except requests.ConnectionError as error:
        assert not is_transient(error)
    assert is_transient(requests.exceptions.SSLError("EOF in violation of protocol"))


def test_a_token_that_cannot_be_had_for_now_may_be_had_later():
    assert is_transient(auth.TransportError("the metadata server is not there"))
    assert not is_transient(auth.RefreshError("the account was deleted"))


def test_pauses_grow_with_jitter_up_to_a_limit(attempts, clock):
    for _ in range(7):
        attempts.wait(answer(503))
    limits = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0]
    assert all(0 <= pause <= limit for pause, limit in zip(clock.pauses, limits, strict=True))
    assert len(set(clock.pauses)) == len(clock.pauses)


def test_retry_after_is_honoured(attempts, clock):
    attempts.wait(answer(429, Retry_After="7"))
    assert 7.0 <= clock.pauses[0] <= 7.25


def test_nobody_waits_beyond_the_deadline(attempts, clock):
    with pytest.raises(api.TooManyRequests):
        attempts.wait(answer(429, Retry_After="61"))
    clock.now_s = 60.0
    with pytest.raises(api.ServiceUnavailable):
        attempts.wait(answer(503))
    assert clock.pauses == []


def test_patience_begins_anew_with_what_arrives(attempts, clock):
    clock.now_s = 59.9
    attempts.note_progress()
    attempts.wait(answer(503))
    assert len(clock.pauses) == 1


def test_a_call_is_made_until_it_succeeds():
    answers = [answer(503), ConnectionResetError(), None]

    def call():
        error = answers.pop(0)
        if error:
            raise error
        return "done"

    policy = TransferPolicy(silence_s=1.0, deadline_s=60.0)
    assert run_with_retries(policy, call) == "done"
