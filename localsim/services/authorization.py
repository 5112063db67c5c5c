"""Authentication and authorization in front of every server.

Whoever comes over TLS needs a token. Who comes without TLS needs none, but is held to what the
token allows when it is that of a worker.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import grpc
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from localsim.rules.model.cloud_errors import CloudError, unimplemented
from localsim.rules.scenario.roles import TPU_METHODS
from localsim.services.auth import iam
from localsim.services.auth.tokens import AccessTokens, WorkerTokens, require_scope, unknown_caller
from localsim.services.net.wire_errors import http_error, refusing_handler
from localsim.services.other_apis.other_api_calls import ApiMethod
from localsim.services.other_apis.other_api_server import MESSAGE_METHODS, Authorize
from localsim.services.rest import discovery, rest
from localsim.services.storage import control_grpc
from localsim.services.storage.batch import PATH as BATCH
from localsim.services.storage.permissions import (
    bucket_of,
    permission_denied,
    permissions_of,
    refusal,
)
from localsim.services.storage.wire.json_requests import ACCOUNT

STORAGE = "storage.googleapis.com"
NEIGHBOURS = {
    control_grpc.METHOD.strip("/").replace("/", "."): (STORAGE, control_grpc.PERMISSION),
    **{
        method.grpc.replace("/", "."): (method.service, method.permission)
        for method in MESSAGE_METHODS
    },
}
"""Full name of a method that is not Cloud TPU's -> its service and the permission it asks for."""
ROUTING = "x-goog-request-params"
REALM = 'Bearer realm="https://accounts.google.com/"'
_Interceptor: Any = grpc.aio.ServerInterceptor
_Refuse = Callable[[web.Request, CloudError], web.Response]


@dataclass(frozen=True, slots=True)
class Authenticator:
    """The known callers: workers by their tokens, and with TLS the accounts that have a key."""

    workers: WorkerTokens
    tokens: AccessTokens | None = None
    everybody: Callable[[], iam.Account | None] = lambda: None
    """Returns the account that a caller without token is; None where it may do everything."""

    def caller(
        self, authorization: object, service: str, method: str, *, secure: bool
    ) -> iam.Account | None:
        """The account that calls; None for one that may do everything. Raises CloudError."""
        worker = self.workers.caller(authorization)
        if worker is not None:
            account, scopes = worker
            require_scope(scopes, {"service": service, "method": method})
            return account
        if not secure:
            return self.everybody()
        header = authorization if isinstance(authorization, str) else None
        if self.tokens is None:
            raise unknown_caller(header, service, method)
        name = self.tokens.caller(header, service, method)
        return iam.Account(self.tokens.email(name), iam.ACCOUNTS[name])

    def of(self, request: web.Request, service: str, method: str) -> iam.Account | None:
        """The account that sends a request; raises CloudError."""
        header = request.headers.get("Authorization")
        return self.caller(header, service, method, secure=request.secure)


class GrpcAuthorization(_Interceptor):
    """An interceptor for a grpc.aio server, which refuses before the handler runs."""

    def __init__(self, callers: Authenticator, project: str, *, secure: bool = True) -> None:
        """`project` is named where a request does not say what it is about.

        Without TLS a caller needs no token.
        """
        self._callers = callers
        self._project = project
        self._secure = secure

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], details: Any
    ) -> Any:
        """The handler of one call, or one that refuses it."""
        if not self._secure and self._callers.everybody() is None:
            return await continuation(details)
        metadata = dict(details.invocation_metadata or ())
        try:
            method = details.method.strip("/").replace("/", ".")
            header = metadata.get("authorization")
            service, _ = NEIGHBOURS.get(method, (iam.TPU_SERVICE, ""))
            _require(
                self._callers.caller(header, service, method, secure=self._secure),
                method,
                _routed(metadata.get(ROUTING)) or f"projects/{self._project}",
            )
        except CloudError as error:
            return refusing_handler(error)
        return await continuation(details)


def rest_authorization(callers: Authenticator) -> Middleware:
    """A middleware that authorizes requests of Cloud TPU's REST API."""

    def check(request: web.Request) -> None:
        path = request.raw_path.partition("?")[0]
        if (request.method, path) == ("GET", discovery.PATH):
            return  # anybody may read what the API looks like
        try:
            route, resource = rest.find_route(request.method, path)
        except CloudError:
            callers.of(request, iam.TPU_SERVICE, "")
            return  # there is no such method: the wire says so itself
        method = f"{route.method.service}.{route.method.name}"
        _require(callers.of(request, iam.TPU_SERVICE, method), method, resource)

    return _checked(callers, check, _refuse_in_json)


def storage_authorization(
    callers: Authenticator,
    bucket_roles: Callable[[str, Collection[str]], Iterable[str]] = lambda *_: (),
) -> Middleware:
    """A middleware that authorizes requests of Cloud Storage.

    The calls of a batch are authorized one by one. `bucket_roles` returns the roles that a bucket's
    policy gives some members: it is asked for who lacks a permission in the project.
    """

    def check(request: web.Request) -> None:
        if request.raw_path.partition("?")[0] == BATCH:
            return
        asked = permissions_of(request.method, request.raw_path)
        account = callers.of(request, STORAGE, asked[0] if asked else request.method)
        if account is None:
            return
        held = iam.granted_permissions(account, asked)
        if not asked or len(held) < len(asked):
            bucket = bucket_of(request.method, request.raw_path)
            account = iam.with_roles(account, bucket_roles(bucket, iam.members_of(account)))
            held = iam.granted_permissions(account, asked)
        for permission in asked:
            if permission not in held:
                raise permission_denied(account.email, permission)
        request[ACCOUNT] = account

    return _checked(callers, check, refusal)


def other_api_authorization(callers: Authenticator, project: str) -> Authorize:
    """The function that authorizes requests of the other APIs, but the token endpoint.

    `project` is named where a path does not say what it is about.
    """

    def authorize(request: web.Request, row: ApiMethod) -> iam.Account | None:
        method = f"{row.service.partition('.')[0]}.{row.name}"
        account = callers.of(request, row.service, method)
        if row.permission and not iam.granted_permissions(account, [row.permission]):
            resource = request.path.strip("/").partition("projects/")[2].split("/")[0]
            name = f"projects/{resource or project}"
            raise iam.permission_denied(row.permission, name, row.service)
        return account

    return authorize


def _require(account: iam.Account | None, method: str, resource: str) -> None:
    """Raise CloudError unless the account may call the method of that full name."""
    name = method.rpartition(".")[2]
    service, permission = NEIGHBOURS.get(method, (iam.TPU_SERVICE, TPU_METHODS.get(name)))
    if permission is None:
        raise unimplemented(f"Method {name}")
    if not iam.granted_permissions(account, [permission]):
        raise iam.permission_denied(permission, resource, service)


def _refuse_in_json(_request: web.Request, error: CloudError) -> web.Response:
    status, document = http_error(error)
    return web.json_response(document, status=status)


def _checked(
    callers: Authenticator, check: Callable[[web.Request], None], refuse: _Refuse
) -> Middleware:
    @web.middleware
    async def authorized(request: web.Request, handler: Handler) -> web.StreamResponse:
        is_named = request.secure or "Authorization" in request.headers
        if not is_named and callers.everybody() is None:
            return await handler(request)
        try:
            check(request)
        except CloudError as error:
            response = refuse(request, error)
            if response.status == 401:  # noqa: PLR2004
                response.headers["WWW-Authenticate"] = REALM
            return response
        return await handler(request)

    return authorized


def _routed(header: Any) -> str | None:
    """The resource that a call names for its routing: `parent=projects/p/locations/z`."""
    pairs: Iterable[str] = header.split("&") if isinstance(header, str) else ()
    for pair in pairs:
        value = unquote(pair.partition("=")[2])
        if value.startswith("projects/"):
            return value
    return None
