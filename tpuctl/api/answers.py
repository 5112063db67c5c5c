"""One question to an API of JSON, and what its refusals mean."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tpuctl.api.tpu.rest import Reply, RestApi
from tpuctl.errors import (
    CredentialsError,
    NotFoundError,
    PermissionDeniedError,
    TpuctlError,
    TransientError,
)
from tpuctl.page_tokens import json_token, read_pages

_OK, _UNAUTHENTICATED, _FORBIDDEN, _NOT_FOUND = 200, 401, 403, 404
_BY_STATUS: Mapping[int, type[TpuctlError]] = {
    _UNAUTHENTICATED: CredentialsError,
    _FORBIDDEN: PermissionDeniedError,
    _NOT_FOUND: NotFoundError,
}


def ask(
    rest: RestApi, method: str, path: str, about: str, document: Mapping[str, Any] | None = None
) -> Mapping[str, Any]:
    """The answer to a request; `about` says what is asked for, as `the project demo`.

    Raises PermissionDeniedError, for an API that is not enabled with the command that enables it,
    NotFoundError, CredentialsError, and TransientError for all else.
    """
    try:
        reply = rest.request(method, path, document)
    except OSError as error:
        raise TransientError(f"{about} cannot be asked for: {error}") from error
    if reply.status == _OK:
        return reply.document
    raise _refusal(reply, about)


def ask_pages(rest: RestApi, path: str, about: str) -> Iterator[Mapping[str, Any]]:
    """The pages of a list; `path` has a query already. Raises what `ask` raises."""

    def fetch(token: str) -> Mapping[str, Any]:
        return ask(rest, "GET", f"{path}&pageToken={token}" if token else path, about)

    return read_pages(fetch, json_token, TransientError, about)


@contextmanager
def parse_answer(about: str) -> Iterator[None]:
    """Raise TransientError where the block finds another shape in an answer than it expects."""
    try:
        yield
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise TransientError(f"the answer about {about} is not understood: {error}") from error


def _refusal(reply: Reply, about: str) -> TpuctlError:
    said = reply.document.get("error")
    error: Mapping[str, Any] = said if isinstance(said, Mapping) else {}
    service = _disabled_service(error)
    if service:
        text = f"{about} cannot be asked for: the API {service} is not enabled"
        return PermissionDeniedError(text, hint=f"run: gcloud services enable {service}")
    text = str(error.get("message") or f"HTTP {reply.status}").splitlines()[0]
    return _BY_STATUS.get(reply.status, TransientError)(f"{about}: {text}")


def _disabled_service(error: Mapping[str, Any]) -> str:
    """The API that the project has not enabled, where that is why; else empty."""
    details = error.get("details")
    for each in details if isinstance(details, list) else ():
        if isinstance(each, Mapping) and each.get("reason") == "SERVICE_DISABLED":
            metadata = each.get("metadata")
            return str(metadata.get("service", "")) if isinstance(metadata, Mapping) else ""
    return ""
