"""Refusals of the simulated Cloud TPU API, in Google's codes and manner."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum


class Code(IntEnum):
    """google.rpc.Code."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """google.rpc.ErrorInfo: the cause of a refusal, for programs."""

    reason: str
    domain: str
    metadata: Mapping[str, str]


class CloudError(Exception):
    """A refusal: a code, the sentence the client shows, and for some its cause."""

    def __init__(self, code: Code, message: str, info: ErrorInfo | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.info = info


@dataclass(frozen=True, slots=True)
class Failure:
    """The error of a long-running operation or request, as google.rpc.Status."""

    code: Code
    message: str


def with_error_id(sentence: str) -> str:
    """The sentence with an error id behind it, as Cloud TPU writes it.

    The same sentence always gets the same id.
    """
    digest = hashlib.sha256(sentence.encode()).hexdigest()[:16]
    return f"{sentence} [EID: 0x{digest}]"


def invalid(sentence: str) -> CloudError:
    """A refusal with INVALID_ARGUMENT."""
    return CloudError(Code.INVALID_ARGUMENT, with_error_id(sentence))


def not_found(name: str) -> CloudError:
    """A refusal with NOT_FOUND that names the resource."""
    return CloudError(Code.NOT_FOUND, f"Resource '{name}' was not found")


def already_exists(name: str) -> CloudError:
    """A refusal with ALREADY_EXISTS that names the resource."""
    return CloudError(Code.ALREADY_EXISTS, f"Resource '{name}' already exists")


def precondition(sentence: str) -> CloudError:
    """A refusal with FAILED_PRECONDITION."""
    return CloudError(Code.FAILED_PRECONDITION, with_error_id(sentence))


def conflict(sentence: str) -> CloudError:
    """A refusal with ABORTED (HTTP 409): another change of the same resource is under way."""
    return CloudError(Code.ABORTED, with_error_id(sentence))


def unimplemented(what: str) -> CloudError:
    """A refusal with UNIMPLEMENTED that names what is not emulated."""
    return CloudError(Code.UNIMPLEMENTED, f"{what} is not emulated by localsim")
