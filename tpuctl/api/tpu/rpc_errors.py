"""Turns errors of gRPC and of HTTP into tpuctl's; what they mean is in explain.py."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from grpc import RpcError, StatusCode

from tpuctl.api.tpu.explain import error_for
from tpuctl.api.tpu.hints import CallSubject
from tpuctl.errors import OutcomeUnknownError
from tpuctl.models.operation import Status
from tpuctl.retry_after import asked_pause_s

AMBIGUOUS = frozenset(
    {
        StatusCode.UNAVAILABLE,
        StatusCode.DEADLINE_EXCEEDED,
        StatusCode.INTERNAL,
        StatusCode.UNKNOWN,
        StatusCode.CANCELLED,
    }
)
"""After one of these a change may or may not have happened."""
DETAILS_KEY = "grpc-status-details-bin"


class HttpError(RpcError):
    """An HTTP reply that is an error, in the form of a gRPC error: retried and translated alike."""

    def __init__(self, code: StatusCode, status: Status, retry_after: str = "") -> None:
        super().__init__(status.message)
        self.retry_after = retry_after
        self._code = code
        self.status = status

    def code(self) -> StatusCode:
        """The status code, as of a grpc.RpcError."""
        return self._code

    def details(self) -> str:
        """The message of the service, as of a grpc.RpcError."""
        return self.status.message


@contextmanager
def translate_errors(about: CallSubject | str, *, changes: bool = False) -> Iterator[None]:
    """Raise the tpuctl error for a refusal; with `changes`, a lost reply is outcome unknown."""
    asked = CallSubject(about) if isinstance(about, str) else about
    try:
        yield
    except RpcError as error:
        status = status_of(error)
        found = error_for(status, asked)
        if changes and error.code() in AMBIGUOUS:
            text = f"{str(found).rstrip('.')} (it may have been done all the same)"
            found = OutcomeUnknownError(text, hint=asked.unknown_hint or asked.hint)
        raise found from error


def status_of(error: RpcError) -> Status:
    """The code, the text and, where the service sent one, the ErrorInfo of a refusal."""
    if isinstance(error, HttpError):
        return error.status
    code = error.code()
    message = error.details() or code.name
    packed = _packed_details(error)
    number = int(code.value[0])
    return _with_error_info(number, message, packed) if packed else Status(number, message)


def asked_pause_of(error: RpcError) -> float:
    """The seconds that the service asks to wait: a Retry-After header, or RetryInfo; else 0.

    https://cloud.google.com/apis/design/errors#error_details
    """
    if isinstance(error, HttpError):
        return asked_pause_s(error.retry_after)
    packed = _packed_details(error)
    if not packed:
        return 0.0
    from google.rpc import error_details_pb2

    info = error_details_pb2.RetryInfo()
    if not _unpack(packed, info):
        return 0.0
    delay_s: float = info.retry_delay.seconds + info.retry_delay.nanos / 1e9
    return max(0.0, delay_s)


def _packed_details(error: RpcError) -> bytes:
    trailers: Any = getattr(error, "trailing_metadata", tuple)() or ()
    return next((value for key, value in trailers if key == DETAILS_KEY), b"")


def _unpack(packed: bytes, message: Any) -> bool:
    """Fill a message with the first detail of its kind; returns whether there is one."""
    from google.protobuf.message import DecodeError
    from google.rpc import status_pb2

    try:
        details: Any = status_pb2.Status.FromString(packed).details
        return any(each.Unpack(message) for each in details)
    except DecodeError:
        return False


def _with_error_info(code: int, message: str, packed: bytes) -> Status:
    from google.rpc import error_details_pb2

    info = error_details_pb2.ErrorInfo()
    if not _unpack(packed, info):
        return Status(code, message)
    return Status(code, message, info.reason, dict(info.metadata))
