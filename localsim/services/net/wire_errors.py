"""The refusals of the simulated cloud, as gRPC and HTTP spell them, with the same details."""

import re
import sqlite3
import sys
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

import grpc
from google.protobuf import any_pb2, json_format
from google.rpc import error_details_pb2, status_pb2

from localsim.rules.model.cloud_errors import CloudError, Code

STATUS_DETAILS = "grpc-status-details-bin"
"""The trailer in which gRPC sends a whole google.rpc.Status."""

MOST_TEXT_BYTES = 1024
"""Of a gRPC status: clients refuse more than 8 KiB of trailers, the text is in them twice and
escaped, and what it quotes of the request can be of any length."""

HTTP_STATUS = {
    Code.CANCELLED: 499,
    Code.UNKNOWN: 500,
    Code.INVALID_ARGUMENT: 400,
    Code.DEADLINE_EXCEEDED: 504,
    Code.NOT_FOUND: 404,
    Code.ALREADY_EXISTS: 409,
    Code.PERMISSION_DENIED: 403,
    Code.RESOURCE_EXHAUSTED: 429,
    Code.FAILED_PRECONDITION: 400,
    Code.ABORTED: 409,
    Code.OUT_OF_RANGE: 400,
    Code.UNIMPLEMENTED: 501,
    Code.INTERNAL: 500,
    Code.UNAVAILABLE: 503,
    Code.DATA_LOSS: 500,
    Code.UNAUTHENTICATED: 401,
}

_REPEATS = re.compile(r"\b(gcloud|gsutil)/")
_INTERNAL = "Internal error encountered."


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """google.rpc.BadRequest.FieldViolation: what is wrong, and with which field."""

    description: str
    field: str = ""


class MalformedRequestError(CloudError):
    """INVALID_ARGUMENT for a request that cannot be parsed; the cloud is not asked."""

    def __init__(
        self, violations: Iterable[FieldViolation], message: str = "", http_status: int = 400
    ) -> None:
        """Without a message, the violations' own words are the message."""
        self.violations = tuple(violations)
        self.http_status = http_status
        descriptions = "\n".join(violation.description for violation in self.violations)
        super().__init__(Code.INVALID_ARGUMENT, message or descriptions)


def refusal(error: Exception) -> CloudError:
    """The CloudError for any error; an unexpected one is printed on stderr and is INTERNAL."""
    if isinstance(error, CloudError):
        return error
    if isinstance(error, sqlite3.OperationalError):  # the disk is full, or not to be written
        sentence = f"The service is currently unavailable: localsim's state: {error}."
        return CloudError(Code.UNAVAILABLE, sentence)
    traceback.print_exception(error, file=sys.stderr)
    return CloudError(Code.INTERNAL, _INTERNAL)


def grpc_error(error: CloudError) -> tuple[grpc.StatusCode, str, tuple[tuple[str, bytes], ...]]:
    """Status, text and trailers of a gRPC reply."""
    text = _shortened(error.message)
    status = status_pb2.Status(code=error.code, message=text, details=_details(error))
    trailers = ((STATUS_DETAILS, status.SerializeToString()),) if status.details else ()
    return grpc.StatusCode[error.code.name], text, trailers


async def abort_call(context: Any, error: CloudError) -> NoReturn:
    """End a gRPC call with the status, text and trailers of an error."""
    await context.abort(*grpc_error(error))
    raise AssertionError("abort has raised")


def refusing_handler(error: CloudError) -> Any:
    """The handler of a gRPC call that refuses it."""

    async def refuse(_body: bytes, context: Any) -> bytes:
        await abort_call(context, error)

    return grpc.unary_unary_rpc_method_handler(refuse)


def final_status(status: int, user_agent: str) -> int:
    """The HTTP status for a client: gcloud and gsutil get 405 where others get 501.

    They repeat for half a minute what is answered 500 or more (apitools, base/py/http_wrapper.py,
    CheckResponse), which helps nobody whose method is not there.
    """
    is_absent = status == HTTP_STATUS[Code.UNIMPLEMENTED]
    return 405 if is_absent and _REPEATS.search(user_agent) else status


def http_error(error: CloudError) -> tuple[int, dict[str, Any]]:
    """Status and body of an HTTP reply, in the form of every Google API."""
    status = getattr(error, "http_status", HTTP_STATUS[error.code])
    body: dict[str, Any] = {"code": status, "message": error.message, "status": error.code.name}
    details: list[Mapping[str, Any]] = [json_format.MessageToDict(each) for each in _details(error)]
    if details:
        body["details"] = details
    return status, {"error": body}


def _shortened(text: str) -> str:
    """The text with its middle left out where it is too long; its end may be an error id."""
    if len(text.encode(errors="replace")) <= MOST_TEXT_BYTES:
        return text
    half = MOST_TEXT_BYTES // 8  # in characters, which have up to four bytes
    return f"{text[:half]} … {text[-half:]}"


def _details(error: CloudError) -> list[any_pb2.Any]:
    """ErrorInfo where the cloud names a cause, BadRequest where fields are at fault."""
    details: list[Any] = []
    if error.info is not None:
        details.append(error_details_pb2.ErrorInfo(**asdict(error.info)))
    if isinstance(error, MalformedRequestError) and error.violations:
        violations = map(asdict, error.violations)
        details.append(error_details_pb2.BadRequest(field_violations=violations))
    return [_packed(detail) for detail in details]


def _packed(detail: Any) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(detail)
    return packed
