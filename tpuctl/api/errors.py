"""The errors of gRPC and of long-running operations become tpuctl's, in one table."""

from collections.abc import Iterator
from contextlib import contextmanager

from grpc import RpcError, StatusCode

from tpuctl.errors import (
    CapacityError,
    ConflictError,
    CredentialsError,
    NotFoundError,
    OutcomeUnknownError,
    PermissionDeniedError,
    PreconditionError,
    TpuctlError,
    TransientError,
    UsageError,
)

BY_STATUS: dict[StatusCode, type[TpuctlError]] = {
    StatusCode.INVALID_ARGUMENT: UsageError,
    StatusCode.OUT_OF_RANGE: UsageError,
    StatusCode.NOT_FOUND: NotFoundError,
    StatusCode.ALREADY_EXISTS: ConflictError,
    StatusCode.FAILED_PRECONDITION: PreconditionError,
    StatusCode.ABORTED: PreconditionError,
    StatusCode.UNAUTHENTICATED: CredentialsError,
    StatusCode.PERMISSION_DENIED: PermissionDeniedError,
    StatusCode.RESOURCE_EXHAUSTED: CapacityError,
    StatusCode.DEADLINE_EXCEEDED: TransientError,
    StatusCode.UNAVAILABLE: TransientError,
    StatusCode.UNIMPLEMENTED: UsageError,
}
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

BY_CODE = {status.value[0]: kind for status, kind in BY_STATUS.items()}


@contextmanager
def translated(subject: str, *, hint: str | None = None, changes: bool = False) -> Iterator[None]:
    """Raise the tpuctl error for a gRPC error; with `changes`, a lost reply is outcome unknown."""
    try:
        yield
    except RpcError as error:
        status = error.code()
        kind = BY_STATUS.get(status, TransientError)
        if changes and status in AMBIGUOUS:
            kind = OutcomeUnknownError
        raise kind(f"{subject}: {_text(error)}", hint=hint) from error


def operation_error(code: int, message: str) -> TpuctlError:
    """The error of a long-running operation that ended with a google.rpc.Code."""
    return BY_CODE.get(code, TransientError)(message)


def _text(error: RpcError) -> str:
    lines = (error.details() or error.code().name).split("\n")
    return str(lines[0]).strip()
