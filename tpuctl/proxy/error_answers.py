"""What a proxy answers itself: errors in the form that clients of OpenAI's API read."""

import json
from dataclasses import dataclass, field

QUEUE_RETRY_S = 1
"""What Retry-After says where the proxy has too much to do."""
REPLICA_RETRY_S = 5
"""What Retry-After says where no replica is ready."""


@dataclass(eq=False)
class ProxyError(Exception):
    """A request that the proxy answers itself."""

    status: int
    code: str
    message: str
    type: str = "server_error"
    headers: dict[str, str] = field(default_factory=dict)
    detail: str = ""
    """What the log says beside the message."""

    def __str__(self) -> str:
        return self.message

    def body(self) -> bytes:
        """The body of the answer, in JSON."""
        return error_body(self.code, self.message, self.type)


def error_body(code: str, message: str, kind: str) -> bytes:
    """An error as JSON."""
    return json.dumps(
        {"error": {"code": code, "message": message, "type": kind, "param": None}}
    ).encode()


def queue_full(waiting: int) -> ProxyError:
    """The error for a request that finds too many others that wait."""
    message = f"{waiting} requests wait for a replica already"
    headers = {"Retry-After": str(QUEUE_RETRY_S)}
    return ProxyError(429, "queue_full", message, "rate_limit_error", headers)


def queue_timeout(waited_s: float) -> ProxyError:
    """The error for a request that no replica took in time, as all are at their limit."""
    message = f"no replica took the request within {waited_s:g} s"
    return ProxyError(503, "queue_timeout", message, headers={"Retry-After": str(QUEUE_RETRY_S)})


def no_replica(message: str, detail: str = "") -> ProxyError:
    """The error for a request that no replica can be given to."""
    headers = {"Retry-After": str(REPLICA_RETRY_S)}
    return ProxyError(503, "no_replica", message, headers=headers, detail=detail)


def proxy_exhausted(message: str) -> ProxyError:
    """The error for a proxy that can open no more connections."""
    headers = {"Retry-After": str(QUEUE_RETRY_S)}
    return ProxyError(
        503, "proxy_exhausted", f"the proxy is at its limit: {message}", headers=headers
    )


def replica_failed(detail: str) -> ProxyError:
    """The error for a replica that broke off before its answer began."""
    message = "the replica broke off before it answered"
    return ProxyError(502, "replica_failed", message, detail=detail)


def replica_refused() -> ProxyError:
    """The error for a replica that takes no requests at the moment, as one does that ends."""
    headers = {"Retry-After": str(REPLICA_RETRY_S)}
    return ProxyError(503, "no_replica", "the replica refused the request", headers=headers)


def bad_answer(detail: str) -> ProxyError:
    """The error for a replica whose answer is not HTTP."""
    return ProxyError(502, "bad_answer", "the replica's answer is not HTTP", detail=detail)


def replica_timeout(silence_s: float) -> ProxyError:
    """The error for a replica that is silent for too long."""
    return ProxyError(504, "replica_timeout", f"the replica did not answer within {silence_s:g} s")


def client_timeout(silence_s: float) -> ProxyError:
    """The error for a client that stops in the middle of its request."""
    message = f"no byte of the request came for {silence_s:g} s"
    return ProxyError(408, "client_timeout", message, "invalid_request_error")


def refused(status: int, code: str, message: str, **headers: str) -> ProxyError:
    """The error for a request that is not passed on."""
    kind = "authentication_error" if status == 401 else "invalid_request_error"
    return ProxyError(status, code, message, kind, headers)
