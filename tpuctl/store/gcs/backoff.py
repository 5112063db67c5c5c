"""Sends requests that may be repeated again while they fail for a moment, with growing pauses.

A request may be repeated when it names a generation or changes nothing. Repeated are lost
connections, 408, 429 and 5xx; never 400, 401, 403, 404, 412 and 501.
https://cloud.google.com/storage/docs/retry-strategy
"""

from __future__ import annotations

import itertools
import ssl
import sys
import time
from collections.abc import Callable
from typing import TypeVar

import requests
import urllib3.exceptions

from tpuctl.network_policy import TransferPolicy, jittered_pause_s
from tpuctl.retry_after import asked_pause_s

T = TypeVar("T")

_STATUSES = frozenset({408, 429, 500, 502, 503, 504})
_LOST = (
    requests.ConnectionError,
    requests.Timeout,
    requests.exceptions.ChunkedEncodingError,
    urllib3.exceptions.ProtocolError,
    urllib3.exceptions.TimeoutError,
    ConnectionError,
    TimeoutError,
)
"""The connection went, or was silent for too long."""


def run_with_retries(policy: TransferPolicy, call: Callable[[], T]) -> T:
    """The call's result; it is tried again while its errors are transient."""
    attempts = Backoff(policy)
    while True:
        try:
            return call()
        except Exception as error:  # noqa: BLE001 (raised again unless it is transient)
            attempts.wait(error)


class Backoff:
    """The pauses between the attempts of one call: jittered, growing, none past its deadline."""

    def __init__(
        self,
        policy: TransferPolicy,
        *,
        sleep: Callable[[float], object] = time.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._policy = policy
        self._sleep = sleep
        self._now = now
        self.note_progress()

    def note_progress(self) -> None:
        """Begin the deadline and the pauses again, because bytes arrived."""
        self._numbers = itertools.count()
        self._deadline_s = self._now() + self._policy.deadline_s

    def wait(self, error: Exception) -> None:
        """Pause before the next attempt; raises the error when there must not be one."""
        if not is_transient(error):
            raise error
        pause_s = asked_pause_s(_retry_after(error)) + jittered_pause_s(next(self._numbers))
        if self._now() + pause_s > self._deadline_s:
            raise error
        self._sleep(pause_s)


def is_transient(error: BaseException) -> bool:
    """Whether the same request may succeed a moment later."""
    if _is_of_certificate(error):
        return False
    return (
        getattr(error, "code", None) in _STATUSES
        or isinstance(error, _LOST)
        or _is_of_token_service(error)
    )


def _is_of_token_service(error: BaseException) -> bool:
    """Whether the service that gives tokens could not be reached."""
    auth = sys.modules.get("google.auth.exceptions")  # who has not imported it raises none of it
    return auth is not None and isinstance(error, auth.TransportError)


def _is_of_certificate(error: BaseException | None) -> bool:
    """Whether the error was caused by a certificate, which is no better a moment later."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error is not None


def _retry_after(error: Exception) -> str:
    """The Retry-After header of a refusal, or nothing."""
    headers = getattr(getattr(error, "response", None), "headers", {})
    return str(headers.get("Retry-After", ""))
