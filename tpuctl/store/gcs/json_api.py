"""Requests to the JSON API of Cloud Storage, and what their errors mean: one table."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

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
_BY_EXCEPTION: tuple[tuple[type[Exception], type[TpuctlError]], ...] = (
    (requests.RequestException, TransientError),
    (urllib3.exceptions.HTTPError, TransientError),
    (ConnectionError, TransientError),
    (TimeoutError, TransientError),
    (OSError, LocalIOError),
)
"""The first row that fits counts."""
_HINTS: dict[type[TpuctlError], str] = {
    CredentialsError: "run: gcloud auth application-default login",
    NotFoundError: "run: tpuctl data list",
    PermissionDeniedError: "the owner of the bucket grants it: roles/storage.objectUser",
    TransientError: "it is safe to run it again",
}
_URL = re.compile(r" with url: \S+|\?\S*upload_id=\S+")
_NO_BUCKET = "The specified bucket does not exist."
_CREATE_HINT = "check its name, or make it: gcloud storage buckets create gs://BUCKET"


class StorageSession(NamedTuple):
    """A `requests` session that carries credentials, and the endpoint its requests go to."""

    session: Any
    endpoint: str

    def send(self, method: str, path: str, **request: Any) -> requests.Response:
        """The answer to one request to a path of the endpoint, or to a whole URL.

        Raises RequestRefusedError unless its status is 2xx, and what a lost connection raises.
        """
        url = path if "://" in path else self.endpoint.rstrip("/") + path
        response: requests.Response = self.session.request(
            method, url, allow_redirects=False, **request
        )
        if response.status_code >= 300:
            raise RequestRefusedError(response)
        return response

    def close(self) -> None:
        """Give the connections back."""
        self.session.close()


class RequestRefusedError(Exception):
    """An answer whose status is not 2xx."""

    def __init__(self, response: requests.Response) -> None:
        """Keep its status as `code`; the text is what the service says of it."""
        super().__init__(_server_message(response))
        self.code = response.status_code
        self.response = response


@contextlib.contextmanager
def translate_errors(subject: str) -> Iterator[None]:
    """Raise what a request raises as an error of tpuctl.errors that names the subject."""
    try:
        yield
    except Exception as error:
        kind = _kind_of(error)
        if kind is None:
            raise
        text = error.strerror if kind is LocalIOError and isinstance(error, OSError) else None
        hint = _CREATE_HINT if str(error) == _NO_BUCKET else _HINTS.get(kind)
        text = text or lost_connection(error) or _first_line(error)
        raise kind(f"{subject}: {text}", hint=hint) from error


def _kind_of(error: Exception) -> type[TpuctlError] | None:
    if isinstance(error, RequestRefusedError):
        return _BY_STATUS.get(error.code, UsageError if error.code < 500 else TransientError)
    rows = _BY_EXCEPTION
    auth = sys.modules.get("google.auth.exceptions")  # who has not imported it raises none of it
    if auth is not None:
        by_auth = (auth.TransportError, TransientError), (auth.GoogleAuthError, CredentialsError)
        rows = (*by_auth, *rows)
    return next((ours for theirs, ours in rows if isinstance(error, theirs)), None)


def _server_message(response: requests.Response) -> str:
    try:
        return str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError, requests.RequestException):
        return f"{response.status_code} {response.reason or 'without a reason'}"


def lost_connection(error: Exception) -> str | None:
    """Which host was not reached, or went silent, and why; None of any other error."""
    if not isinstance(error, requests.RequestException) or error.request is None:
        return None
    host, causes = urlsplit(str(error.request.url)).hostname, list(_causes(error))
    if isinstance(causes[-1], OSError) and causes[-1].strerror:
        return f"{host} cannot be reached: {causes[-1].strerror}"
    if any(isinstance(each, urllib3.exceptions.ConnectTimeoutError) for each in causes):
        return f"{host} does not take the connection"
    is_silent = any(isinstance(each, urllib3.exceptions.ReadTimeoutError) for each in causes)
    return f"{host} has stopped answering" if is_silent else None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and what caused it, the first cause last."""
    while error is not None:
        yield error
        nested = error.args[0] if error.args else None
        error = (
            error.__cause__
            or error.__context__
            or (nested if isinstance(nested, BaseException) else None)
        )


def _first_line(error: Exception) -> str:
    """What an error says, without the URL: that of an upload that goes on is a secret."""
    return _URL.sub("", (str(error).strip() or type(error).__name__).splitlines()[0])
