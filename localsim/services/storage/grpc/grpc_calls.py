"""One call of a method of Cloud Storage over gRPC: its parts, its names and its refusals."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from google.protobuf.message import DecodeError
from google.protobuf.timestamp_pb2 import Timestamp

from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.rules.objects.folders.folder_records import FolderConflict
from localsim.rules.objects.storage_model import Preconditions, StorageError, invalid
from localsim.services.net.wire_errors import FieldViolation, MalformedRequestError
from localsim.services.storage.service import StorageService

_CODES = {
    304: Code.ABORTED,
    400: Code.INVALID_ARGUMENT,
    403: Code.PERMISSION_DENIED,
    404: Code.NOT_FOUND,
    409: Code.ALREADY_EXISTS,
    410: Code.NOT_FOUND,
    411: Code.INVALID_ARGUMENT,
    412: Code.FAILED_PRECONDITION,
    413: Code.INVALID_ARGUMENT,
    416: Code.OUT_OF_RANGE,
    429: Code.RESOURCE_EXHAUSTED,
    500: Code.INTERNAL,
    501: Code.UNIMPLEMENTED,
    503: Code.UNAVAILABLE,
    507: Code.UNAVAILABLE,
}
_BUCKET = "projects/_/buckets/"
_CONDITIONS = (
    "generation_match",
    "generation_not_match",
    "metageneration_match",
    "metageneration_not_match",
)


class RefusalWithDetails(CloudError):
    """A refusal whose details are a message of Cloud Storage's own, in the trailers."""

    def __init__(self, code: Code, message: str, trailers: tuple[tuple[str, bytes], ...]) -> None:
        super().__init__(code, message)
        self.trailers = trailers


class CallKind(Enum):
    """Which sides of a call are streams of messages."""

    UNARY = auto()
    SERVER_STREAM = auto()
    CLIENT_STREAM = auto()
    BIDI = auto()


Unary = Callable[[StorageService, Any], Awaitable[Any]]
ServerStream = Callable[[StorageService, Any], AsyncIterator[Any]]
ClientStream = Callable[[StorageService, AsyncIterator[Any]], Awaitable[Any]]
Bidi = Callable[[StorageService, AsyncIterator[Any]], AsyncIterator[Any]]


@dataclass(frozen=True, slots=True)
class RpcMethod:
    """A method: the class of its requests, and what answers them with messages."""

    request: Any
    answer: Any
    """A Unary, ServerStream, ClientStream or Bidi, as the kind says."""
    kind: CallKind = CallKind.UNARY

    def parse(self, body: bytes) -> Any:
        """The message of a request; raises CloudError."""
        try:
            return self.request.FromString(body)
        except DecodeError:
            sentence = f"The request is not a {self.request.DESCRIPTOR.name}."
            raise MalformedRequestError([FieldViolation(sentence)]) from None


def grpc_refusal_of(error: StorageError) -> CloudError:
    """A refusal of Cloud Storage as gRPC's codes put it."""
    if isinstance(error, FolderConflict):
        return CloudError(Code.FAILED_PRECONDITION, error.message)
    return CloudError(_CODES.get(error.code, Code.UNKNOWN), error.message)


def bucket_name(name: str) -> str:
    """The bucket of `projects/_/buckets/BUCKET`; raises StorageError 400."""
    bucket = name.removeprefix(_BUCKET)
    if not name.startswith(_BUCKET) or not bucket or "/" in bucket:
        raise invalid(f"Invalid bucket name: '{name}'")
    return bucket


def split_name(name: str, collection: str) -> tuple[str, str]:
    """Bucket and name of `projects/_/buckets/BUCKET/COLLECTION/NAME`; raises StorageError 400."""
    bucket, slash, rest = name.removeprefix(_BUCKET).partition(f"/{collection}/")
    if not name.startswith(_BUCKET) or not bucket or not slash or not rest or "/" in bucket:
        raise invalid(f"The name '{name}' is not valid.")
    return bucket, rest


def full_bucket_name(bucket: str) -> str:
    """A bucket as gRPC names it."""
    return f"{_BUCKET}{bucket}"


def conditions(request: Any, prefix: str = "if") -> Preconditions:
    """The preconditions among the fields of a request."""
    found = {}
    for name in _CONDITIONS:
        field = f"{prefix}_{name}"
        if field in request.DESCRIPTOR.fields_by_name and request.HasField(field):
            found[name] = getattr(request, field)
    return Preconditions(**found)


def moment(seconds: float) -> Timestamp:
    """A time in seconds of the epoch as a message."""
    nanoseconds = round(seconds * 1e6) * 1000
    return Timestamp(seconds=nanoseconds // 10**9, nanos=nanoseconds % 10**9)


def page_size(asked: int, most: int) -> int:
    """How many results a page has at most; raises StorageError 400."""
    if asked < 0:
        raise invalid(f"Invalid page size: {asked}")
    return min(asked or most, most)
