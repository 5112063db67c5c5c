"""The clients of a context: endpoints and credentials come from it and from nowhere else."""

from collections.abc import Callable
from contextlib import closing
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import grpc

from tpuctl.api.compute import AddressQuota, AddressReader, address_quota
from tpuctl.api.credentials import Tokens, tokens
from tpuctl.api.secret_manager import secret_value
from tpuctl.api.service_usage import QuotaLimit, tpu_limits
from tpuctl.api.storage import authorized_session
from tpuctl.api.tpu.rest import RestApi
from tpuctl.api.tpu.tpu import TpuApi
from tpuctl.config import Context
from tpuctl.errors import PreconditionError

if TYPE_CHECKING:
    from tpuctl.api.monitoring import MonitoringApi

LimitsReader = Callable[[], list[QuotaLimit]]
"""Raises what `tpu_limits` raises."""
CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.enable_retries", 0),  # one retry policy: api/tpu/retry.py
)


def tpu_api(context: Context) -> TpuApi:
    """The Cloud TPU API; raises CredentialsError without touching the network."""
    access = tokens(context)
    return TpuApi(
        _channel(context.tpu_endpoint, access),
        context.project,
        rest=(lambda: RestApi(context.tpu_rest_endpoint, authorized_session(access)))
        if context.is_one_cloud("tpu_rest_endpoint")
        else None,
    )


def service_usage_api(context: Context) -> RestApi:
    """Service Usage; raises CredentialsError without touching the network."""
    return RestApi(context.serviceusage_endpoint, authorized_session(tokens(context)))


def quota_limits_reader(context: Context) -> LimitsReader | None:
    """What reads the limits of Cloud TPU's quotas; None where they belong to another cloud."""
    if not context.is_one_cloud("serviceusage_endpoint"):
        return None

    def read() -> list[QuotaLimit]:
        with closing(service_usage_api(context)) as rest:
            return tpu_limits(rest, context.project)

    return read


def monitoring_api(context: Context) -> "MonitoringApi":
    """Cloud Monitoring; raises CredentialsError without touching the network.

    Raises PreconditionError where it belongs to another cloud than the nodes.
    """
    from tpuctl.api.monitoring import MonitoringApi  # for one option of two commands

    if not context.is_one_cloud("monitoring_endpoint"):
        raise PreconditionError(
            f"context {context.name!r} has its nodes and Cloud Monitoring in different clouds",
            hint=f"set monitoring_endpoint of context {context.name!r} in config.yaml",
        )
    rest = RestApi(context.monitoring_endpoint, authorized_session(tokens(context)))
    return MonitoringApi(rest, context.project)


def secret_reader(context: Context) -> Callable[[str], str]:
    """What reads `sm://` references with the context's credentials.

    It raises PreconditionError where Secret Manager belongs to another cloud than the nodes, and
    what `secret_value` raises.
    """

    def read(reference: str) -> str:
        if not context.is_one_cloud("secretmanager_endpoint"):
            raise PreconditionError(
                f"context {context.name!r} has its nodes and Secret Manager in different clouds",
                hint=f"set secretmanager_endpoint of context {context.name!r} in config.yaml",
            )
        access = authorized_session(tokens(context))
        with closing(RestApi(context.secretmanager_endpoint, access)) as rest:
            return secret_value(rest, reference)

    return read


def address_quota_reader(context: Context) -> AddressReader | None:
    """What reads the external addresses of a region; None where it belongs to another cloud."""
    if not context.is_one_cloud("compute_endpoint"):
        return None

    def read(region: str) -> AddressQuota:
        access = authorized_session(tokens(context))
        with closing(RestApi(context.compute_endpoint, access)) as rest:
            return address_quota(rest, context.project, region)

    return read


def _channel(endpoint: str, access: Tokens | None) -> grpc.Channel:
    if access is None:
        direct = (*CHANNEL_OPTIONS, ("grpc.enable_http_proxy", 0))
        return grpc.insecure_channel(endpoint, options=direct)
    credentials = grpc.ssl_channel_credentials()
    secure = grpc.secure_channel(endpoint, credentials, options=CHANNEL_OPTIONS)
    return grpc.intercept_channel(secure, _Authorizing(access))


_Interceptor: Any = grpc.UnaryUnaryClientInterceptor


class _Authorizing(_Interceptor):
    """Puts a fresh token into every call of a channel that is encrypted."""

    def __init__(self, access: Tokens) -> None:
        self._tokens = access

    def intercept_unary_unary(
        self, continuation: Callable[[Any, Any], Any], details: Any, request: Any
    ) -> Any:
        headers: dict[str, str] = {}
        self._tokens.apply(headers, details.timeout)
        # What gRPC does not find here it takes from the details that it gave.
        changed = SimpleNamespace(metadata=(*(details.metadata or ()), *headers.items()))
        return continuation(changed, request)
