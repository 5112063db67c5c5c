"""Google's own clients, every version over every transport, called in one way.

`door.call("GetNode", {"name": …})` answers the client's own message, for a list that of its first
page, for a long-running method the client's own operation. For v2alpha1 over REST there is no
client of Google's; the one for v2 reads no operation unless `google.cloud.common` is imported.
"""

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc
import requests
from google.api_core.operation import Operation
from google.auth.credentials import AnonymousCredentials, Credentials
from google.auth.transport.requests import AuthorizedSession
from google.cloud import tpu_v2, tpu_v2alpha1
from google.cloud.common import OperationMetadata
from google.cloud.tpu_v2.services.tpu import transports as v2_transports
from google.cloud.tpu_v2alpha1.services.tpu import transports as v2alpha1_transports

from client.storage.json_client import JsonClient


def metadata_of(operation: Any) -> Any:
    """What a google.longrunning.Operation says of itself, whichever class it is packed as."""
    return OperationMetadata.deserialize(operation.metadata.value)


V2 = ("v2", tpu_v2, v2_transports)
V2ALPHA1 = ("v2alpha1", tpu_v2alpha1, v2alpha1_transports)


@dataclass(frozen=True)
class Endpoint:
    """Where the API is, and who asks; without credentials it is spoken to in the clear.

    With them it is spoken to by TLS, and trusted by whatever the environment says of authorities.
    """

    grpc: str
    rest: str
    credentials: Credentials | None = None

    @property
    def scheme(self) -> str:
        return "http" if self.credentials is None else "https"


@dataclass(frozen=True)
class Door:
    """One version over one transport."""

    version: str
    transport: str
    types: Any
    call: Callable[..., Any]
    result: Callable[..., Any]
    """Waits for an operation that `call` answered."""

    @property
    def name(self) -> str:
        return f"{self.version}-{self.transport}"


NAMES = tuple(
    f"{version}-{transport}"
    for version in ("v2", "v2alpha1")
    for transport in ("grpc", "asyncio", "rest")
)


@contextmanager
def doors(endpoint: Endpoint) -> Iterator[dict[str, Door]]:
    """Every door by its name, each with connections of its own."""
    with ExitStack() as stack:
        runner = stack.enter_context(asyncio.Runner())
        found = []
        for version in (V2, V2ALPHA1):
            found.append(_grpc(stack, endpoint, *version))
            found.append(_asyncio(stack, runner, endpoint, *version))
        found.append(_rest(stack, endpoint))
        found.append(_json(stack, endpoint))
        yield {door.name: door for door in found}


def snake(name: str) -> str:
    """`GetNode` as `get_node`."""
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


def _grpc(stack: ExitStack, endpoint: Endpoint, version: str, types: Any, transports: Any) -> Door:
    if endpoint.credentials is None:
        channel = stack.enter_context(grpc.insecure_channel(endpoint.grpc))
        client = types.TpuClient(transport=transports.TpuGrpcTransport(channel=channel))
    else:
        client = stack.enter_context(types.TpuClient(**_signed(endpoint)))
    return Door(version, "grpc", types, partial(_call, client), Operation.result)


def _signed(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "credentials": endpoint.credentials,
        "client_options": {"api_endpoint": endpoint.grpc},
    }


def _rest(stack: ExitStack, endpoint: Endpoint) -> Door:
    transport = v2_transports.TpuRestTransport(
        credentials=endpoint.credentials or AnonymousCredentials(),
        host=endpoint.rest,
        url_scheme=endpoint.scheme,
    )
    client = stack.enter_context(tpu_v2.TpuClient(transport=transport))
    return Door("v2", "rest", tpu_v2, partial(_call, client), Operation.result)


def _call(client: Any, method: str, request: dict[str, Any]) -> Any:
    answer = getattr(client, snake(method))(request=request)
    return next(answer.pages) if hasattr(answer, "pages") else answer


def _asyncio(
    stack: ExitStack,
    runner: asyncio.Runner,
    endpoint: Endpoint,
    version: str,
    types: Any,
    transports: Any,
) -> Door:
    async def connect() -> Any:
        if endpoint.credentials is not None:
            return types.TpuAsyncClient(**_signed(endpoint))
        channel = grpc.aio.insecure_channel(endpoint.grpc)
        return types.TpuAsyncClient(transport=transports.TpuGrpcAsyncIOTransport(channel=channel))

    async def call(method: str, request: dict[str, Any]) -> Any:
        answer = await getattr(client, snake(method))(request=request)
        return await anext(answer.pages) if hasattr(answer, "pages") else answer

    async def result(operation: Any, **options: Any) -> Any:
        return await operation.result(**options)

    client = runner.run(connect())
    stack.callback(lambda: runner.run(client.transport.close()))
    return Door(
        version,
        "asyncio",
        types,
        lambda method, request: runner.run(call(method, request)),
        lambda operation, **options: runner.run(result(operation, **options)),
    )


def _json(stack: ExitStack, endpoint: Endpoint) -> Door:
    credentials = endpoint.credentials
    session = requests.Session() if credentials is None else AuthorizedSession(credentials)
    session.trust_env = credentials is not None
    client = JsonClient(stack.enter_context(session), f"{endpoint.scheme}://{endpoint.rest}")
    return Door("v2alpha1", "rest", tpu_v2alpha1, client.call, Operation.result)
