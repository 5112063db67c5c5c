"""The clients of a context: endpoints and credentials come from it and from nowhere else."""

from collections.abc import Callable
from typing import Any, NamedTuple

import grpc

from tpuctl.api.credentials import Tokens, tokens
from tpuctl.api.storage import authorized_session
from tpuctl.api.tpu.rest import RestApi
from tpuctl.api.tpu.tpu import TpuApi
from tpuctl.config import GOOGLE_TPU, GOOGLE_TPU_REST, Context

CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.enable_retries", 0),  # one retry policy: api/tpu/retry.py
)


def tpu_api(context: Context) -> TpuApi:
    """The Cloud TPU API; raises CredentialsError without touching the network."""
    found = tokens(context)
    channel = _channel(context.tpu_endpoint, found)
    return TpuApi(
        channel,
        context.project,
        rest=(lambda: RestApi(context.tpu_rest_endpoint, authorized_session(found)))
        if _are_endpoints_alike(context)
        else None,
    )


def service_usage_api(context: Context) -> RestApi:
    """Service Usage; raises CredentialsError without touching the network."""
    return RestApi(context.serviceusage_endpoint, authorized_session(tokens(context)))


def _are_endpoints_alike(context: Context) -> bool:
    """Whether the gRPC and the REST endpoint are both Google's, or neither: they show one cloud."""
    return (context.tpu_endpoint == GOOGLE_TPU) == (context.tpu_rest_endpoint == GOOGLE_TPU_REST)


def _channel(endpoint: str, found: Tokens | None) -> grpc.Channel:
    if found is None:
        direct = (*CHANNEL_OPTIONS, ("grpc.enable_http_proxy", 0))
        return grpc.insecure_channel(endpoint, options=direct)
    credentials = grpc.ssl_channel_credentials()
    secure = grpc.secure_channel(endpoint, credentials, options=CHANNEL_OPTIONS)
    return grpc.intercept_channel(secure, _Authorizing(found))


class _CallDetails(NamedTuple):
    """The fields of grpc.ClientCallDetails, an abstract class that an interceptor implements."""

    method: str
    timeout: float | None
    metadata: Any
    credentials: Any
    wait_for_ready: bool | None
    compression: Any


_Interceptor: Any = grpc.UnaryUnaryClientInterceptor


class _Authorizing(_Interceptor):
    """Puts a fresh token into every call of a channel that is encrypted."""

    def __init__(self, found: Tokens) -> None:
        self._tokens = found

    def intercept_unary_unary(
        self, continuation: Callable[[Any, Any], Any], details: Any, request: Any
    ) -> Any:
        headers: dict[str, str] = {}
        self._tokens.apply(headers, details.timeout)
        changed = _CallDetails(
            details.method,
            details.timeout,
            (*(details.metadata or ()), *headers.items()),
            details.credentials,
            details.wait_for_ready,
            details.compression,
        )
        return continuation(changed, request)
