"""Google's exceptions become tpuctl's: one table, the first row that fits counts."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import requests
import urllib3.exceptions
from google.api_core import exceptions as api
from google.auth import exceptions as auth
from google.cloud.storage.exceptions import DataCorruption

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
from tpuctl.store.gcs.json_api import without_url

_LOGIN = "run: gcloud auth application-default login"
_GRANT = "it takes roles/storage.objectUser on the bucket"
_AGAIN = "it is safe to run it again"


class RangeError(UsageError):
    """The range begins behind the end of the object."""


_ROWS: tuple[tuple[type[Exception], type[TpuctlError], str | None], ...] = (
    (api.NotFound, NotFoundError, "run: tpuctl data list"),
    (api.PreconditionFailed, PreconditionError, None),
    (api.Conflict, ConflictError, None),
    (api.Unauthorized, CredentialsError, _LOGIN),
    (api.Forbidden, PermissionDeniedError, _GRANT),
    (api.RequestRangeNotSatisfiable, RangeError, None),
    (api.TooManyRequests, TransientError, _AGAIN),
    (api.ClientError, UsageError, None),
    (api.GoogleAPICallError, TransientError, _AGAIN),
    (api.RetryError, TransientError, _AGAIN),
    (DataCorruption, IntegrityError, None),
    (auth.TransportError, TransientError, _AGAIN),
    (auth.GoogleAuthError, CredentialsError, _LOGIN),
    (requests.RequestException, TransientError, _AGAIN),
    (urllib3.exceptions.HTTPError, TransientError, _AGAIN),
    (ConnectionError, TransientError, _AGAIN),
    (TimeoutError, TransientError, _AGAIN),
    (OSError, LocalIOError, None),
)
_REQUEST = re.compile(r"^(?:GET|POST|PUT|PATCH|DELETE) \S+: ")
"""How Google's library begins a message: nobody wants to read the URL."""
_SERVER_MESSAGE = re.compile(r'"message":\s*"([^"]+)"')
_CAUGHT = tuple(row[0] for row in _ROWS)


@contextlib.contextmanager
def translate_errors(subject: str) -> Iterator[None]:
    """Raise Google's errors as ours, naming what the call was about."""
    try:
        yield
    except _CAUGHT as error:
        _, ours, hint = next(row for row in _ROWS if isinstance(error, row[0]))
        raise ours(f"{subject}: {_message(error)}", hint=hint) from error


def _message(error: Exception) -> str:
    text = str(getattr(error, "message", "") or error).strip()
    if found := _SERVER_MESSAGE.search(text):
        return found[1]
    return without_url(_REQUEST.sub("", text.splitlines()[0])) if text else type(error).__name__
