"""A refusal of the simulated cloud as each wire spells it: one table."""

from typing import Any

import grpc

from localsim.cloud.errors import CloudError, Code

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


def grpc_status(error: CloudError) -> grpc.StatusCode:
    """The status of a gRPC reply; the names are the same."""
    return grpc.StatusCode[error.code.name]


def http_error(error: CloudError) -> tuple[int, dict[str, Any]]:
    """Status and body of an HTTP reply, as every Google API words them."""
    status = HTTP_STATUS[error.code]
    body = {
        "code": status,
        "message": error.message,
        "status": error.code.name,
        "details": [],
    }
    return status, {"error": body}
