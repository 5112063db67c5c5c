"""Requests to Cloud Storage's JSON API through the session of a context, and what its errors mean.

Only what copies do thousands of times comes this way: it costs a third of what it costs through
google-cloud-storage, whose import alone takes longer than many a copy.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import requests
import urllib3.exceptions

from tpuctl.errors import (
    ConflictError,
    CredentialsError,
    IntegrityError,
    LocalIOError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionError,
    TpuctlError,
    TransientError,
    UsageError,
)

_BY_STATUS: dict[int, type[TpuctlError]] = {
    401: CredentialsError,
    403: PermissionDeniedError,
    404: NotFoundError,
    408: TransientError,
    409: ConflictError,
    412: PreconditionError,
    416: IntegrityError,  # what is asked for was there when it was listed
    429: TransientError,
}
_URL = re.compile(r" with url: \S+|\?\S*upload_id=\S+")
_HINTS: dict[type[TpuctlError], str] = {
    CredentialsError: "run: gcloud auth application-default login",
    NotFoundError: "run: tpuctl data list",
    PermissionDeniedError: "whoever owns the bucket grants it: roles/storage.objectUser",
}
_NO_BUCKET = "The specified bucket does not exist."
_CREATE_HINT = "check its name, or make it: gcloud storage buckets create gs://BUCKET"


class RequestRefusedError(Exception):
    """An answer that is no success."""

    def __init__(self, response: requests.Response) -> None:
        """Its status, and what the service says of it."""
        super().__init__(_message(response))
        self.code = response.status_code
        self.response = response


def send_request(session: Any, method: str, url: str, **request: Any) -> requests.Response:
    """One request; raises RefusedRequest, or what a lost connection raises."""
    response: requests.Response = session.request(method, url, allow_redirects=False, **request)
    if response.status_code >= 300:
        raise RequestRefusedError(response)
    return response


@contextlib.contextmanager
def translate_errors(subject: str) -> Iterator[None]:
    """Raise what a request raises in our words, naming what it was about."""
    try:
        yield
    except RequestRefusedError as error:
        kind = _BY_STATUS.get(error.code, UsageError if error.code < 500 else TransientError)
        hint = _CREATE_HINT if str(error) == _NO_BUCKET else _HINTS.get(kind)
        raise kind(f"{subject}: {error}", hint=hint) from error
    except (requests.RequestException, urllib3.exceptions.HTTPError, ConnectionError) as error:
        raise TransientError(f"{subject}: {first_line(error)}") from error
    except OSError as error:
        raise LocalIOError(f"{subject}: {error.strerror or error}") from error


def _message(response: requests.Response) -> str:
    try:
        return str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError, requests.RequestException):
        return f"{response.status_code} {response.reason or 'without a reason'}"


def first_line(error: Exception) -> str:
    """What an error says, in one line and without a URL."""
    return without_url((str(error).strip() or type(error).__name__).splitlines()[0])


def without_url(text: str) -> str:
    """A message without the URL that was asked: that of an upload that goes on is a secret."""
    return _URL.sub("", text)
