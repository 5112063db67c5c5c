"""The refusals of Cloud Storage in the error envelope of its JSON API, or as text alone.

Reasons: cloud.google.com/storage/docs/json_api/v1/status-codes. Where Google sends its message
without an envelope is read from google-resumable-media's system tests: refused downloads of media,
and what the server of uploads says of the chunks of a resumable upload.
"""

import json
import sqlite3
import sys
import traceback
from collections.abc import Mapping

from aiohttp import web

from localsim.rules.model.cloud_errors import CloudError
from localsim.rules.objects.storage_model import StorageError, invalid
from localsim.rules.objects.upload_sessions import ChunkError

_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
_PLACES: Mapping[str, tuple[str, str]] = {
    "authError": ("header", "Authorization"),
    "conditionNotMet": ("header", "If-Match"),
    "requestedRangeNotSatisfiable": ("header", "Range"),
}
"""Where the fault is, for the reasons that always mean the same place."""


class ParameterError(StorageError):
    """A parameter that is missing or malformed; the envelope names it."""

    def __init__(self, parameter: str, message: str, reason: str = "invalidParameter") -> None:
        super().__init__(400, reason, message)
        self.parameter = parameter


class AnonymousError(StorageError):
    """A refusal of a caller without token; the envelope says where the token belongs."""

    def __init__(self, message: str) -> None:
        super().__init__(401, "required", message)


def check_json_type(request: web.Request) -> None:
    """Raise 400 for a form or plain text where JSON belongs, as Google does.

    A web page may send those content types anywhere.
    """
    if "Content-Type" not in request.headers:
        return
    if request.content_type in _FORMS:
        message = "This API does not support parsing form-encoded input."
        raise StorageError(400, "parseError", message)
    if request.content_type == "text/plain":
        raise StorageError(400, "badContent", "Unsupported content with type: text/plain")


def missing_parameter(parameter: str) -> ParameterError:
    """A refusal with 400 for a required parameter that is missing."""
    return ParameterError(parameter, f"Required parameter: {parameter}", "required")


def request_refusal(request: web.Request, error: StorageError) -> web.Response:
    """The reply with the error as that request gets it: as text where media was asked for."""
    asks_media = request.query.get("alt") == "media" or request.raw_path.startswith("/download/")
    is_media = asks_media and request.method in ("GET", "HEAD")
    return _text_response(error, "text/html") if is_media else error_response(error)


def error_response(error: StorageError) -> web.Response:
    """The reply with the error; a 304 has no body."""
    if error.code == 304:  # noqa: PLR2004
        return web.Response(status=304)
    if isinstance(error, ChunkError):
        return _text_response(error, "text/plain")
    detail = {"message": error.message, "domain": "global", "reason": error.reason}
    place = _PLACES.get(error.reason)
    if isinstance(error, AnonymousError):
        place = _PLACES["authError"]
    if isinstance(error, ParameterError):
        place = ("parameter", error.parameter)
    if place is not None:
        detail["locationType"], detail["location"] = place
    envelope = {"error": {"code": error.code, "message": error.message, "errors": [detail]}}
    return web.Response(
        status=error.code,
        body=json.dumps(envelope, separators=(",", ":")).encode(),
        headers={"Content-Type": "application/json; charset=UTF-8", **error.headers},
    )


def _text_response(error: StorageError, content_type: str) -> web.Response:
    if error.code == 304:  # noqa: PLR2004
        return web.Response(status=304)
    return web.Response(
        status=error.code,
        body=error.message.encode(),
        headers={"Content-Type": f"{content_type}; charset=UTF-8", **error.headers},
    )


def refusal(error: Exception) -> StorageError:
    """The StorageError for any error; an unexpected one is printed on stderr and is a 500."""
    if isinstance(error, StorageError):
        return error
    if isinstance(error, CloudError):  # a fault of the scenario could not be counted
        return StorageError(503, "backendError", error.message)
    if isinstance(error, web.RequestPayloadError):
        return invalid(f"Malformed request body: {error}")
    if isinstance(error, sqlite3.OperationalError):  # the disk is full, or not to be written
        return StorageError(507, "insufficientStorage", f"localsim: {error}")
    traceback.print_exception(error, file=sys.stderr)
    message = "We encountered an internal error. Please try again."
    return StorageError(500, "internalError", message)
