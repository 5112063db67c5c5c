"""Authentication and authorization in front of every server.

Whoever comes over TLS needs a token. Who comes without TLS needs none, but is held to what the
token allows when it is that of a worker.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote, unquote

import grpc
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from localsim.rules.model.cloud_errors import CloudError, unimplemented
from localsim.rules.objects.storage_model import ObjectKey, StorageError
from localsim.rules.scenario.roles import TPU_METHODS
from localsim.services.auth import iam
from localsim.services.auth.tokens import AccessTokens, WorkerTokens, require_scope, unknown_caller
from localsim.services.net.wire_errors import http_error, refusing_handler
from localsim.services.other_apis.other_api_calls import ApiMethod
from localsim.services.other_apis.other_api_server import MESSAGE_METHODS, Authorize
from localsim.services.rest import discovery, rest
from localsim.services.storage.batch import PATH as BATCH
from localsim.services.storage.grpc import method_names as storage_methods
from localsim.services.storage.grpc.method_names import ROUTING
from localsim.services.storage.permissions import (
    StorageNeeds,
    is_form_upload,
    is_of_session,
    needs_of,
    permission_denied,
    refusal,
    xml_refusal,
)
from localsim.services.storage.signing.signature_verifier import SignatureVerifier, Signer
from localsim.services.storage.signing.signed_requests import signer_of
from localsim.services.storage.wire.json_requests import ACCOUNT
from localsim.services.storage.xml.dispatch import is_xml_request
from localsim.services.storage.xml.form_uploads import FORM_AUTHORIZATION, FormAuthorization

STORAGE = "storage.googleapis.com"
NEIGHBOURS = {
    method.grpc.replace("/", "."): (method.service, method.permission) for method in MESSAGE_METHODS
}
"""Full name of a method that is not Cloud TPU's -> its service and the permission it asks for."""
REALM = 'Bearer realm="https://accounts.google.com/"'
_Interceptor: Any = grpc.aio.ServerInterceptor
BucketRoles = Callable[[str, Collection[str]], Iterable[str]]
"""From a bucket and members to the roles that its policy gives any of them."""
ObjectRoles = Callable[[ObjectKey, Collection[str]], Iterable[str]]
"""From an object, or a bucket alone, and members to the roles that they have there."""
_Refuse = Callable[[web.Request, Any], web.Response]


@dataclass(frozen=True, slots=True)
class Authenticator:
    """The known callers: workers by their tokens, and with TLS the accounts that have a key."""

    workers: WorkerTokens
    tokens: AccessTokens | None = None
    everybody: Callable[[], iam.Account | None] = lambda: None
    """Returns the account that a caller without token is; None where it may do everything."""
    roles_of: Callable[[str], Sequence[str]] = lambda _email: ()
    """Returns the roles in the project of the service account with an e-mail address."""

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

    def signer(self, signer: Signer, *, secure: bool) -> iam.Account | None:
        """The account that a signed request acts as; None for one that may do everything.

        Without TLS a signature, though it must be right, takes nothing away from its sender.
        """
        if not secure:
            return self.everybody()
        return iam.Account(signer.email, tuple(self.roles_of(signer.email)))

    def of(self, request: web.Request, service: str, method: str) -> iam.Account | None:
        """The account that sends a request; raises CloudError."""
        header = request.headers.get("Authorization")
        return self.caller(header, service, method, secure=request.secure)


class GrpcAuthorization(_Interceptor):
    """An interceptor for a grpc.aio server, which refuses before the handler runs."""

    def __init__(
        self,
        callers: Authenticator,
        project: str,
        *,
        secure: bool = True,
        bucket_roles: BucketRoles = lambda *_: (),
    ) -> None:
        """`project` is named where a request does not say what it is about.

        Without TLS a caller needs no token. `bucket_roles` is asked for who lacks a permission of
        Cloud Storage in the project.
        """
        self._bucket_roles = bucket_roles
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
            bucket = storage_methods.routed_bucket(metadata.get(ROUTING))
            permission = storage_methods.permission_of(method, bucket)
            if permission is not None:
                account = self._callers.caller(header, STORAGE, method, secure=self._secure)
                self._require_storage(account, permission, bucket)
                return await continuation(details)
            service, _ = NEIGHBOURS.get(method, (iam.TPU_SERVICE, ""))
            _require(
                self._callers.caller(header, service, method, secure=self._secure),
                method,
                _routed(metadata.get(ROUTING)) or f"projects/{self._project}",
            )
        except CloudError as error:
            return refusing_handler(error)
        return await continuation(details)

    def _require_storage(self, account: iam.Account | None, permission: str, bucket: str) -> None:
        """Raise CloudError unless the account has a permission of Cloud Storage."""
        if iam.granted_permissions(account, [permission]) or account is None:
            return
        roles = self._bucket_roles(bucket, iam.members_of(account)) if bucket else ()
        if not iam.granted_permissions(iam.with_roles(account, roles), [permission]):
            raise permission_denied(account.email, permission, wants_token=False)


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


@dataclass(frozen=True, slots=True)
class StorageAuthorization:
    """Authorizes requests of Cloud Storage."""

    callers: Authenticator
    roles_of: ObjectRoles
    signatures: SignatureVerifier | None

    def check(self, request: web.Request) -> None:
        """Raise CloudError or StorageError unless the sender of a request may send it.

        The calls of a batch are authorized one by one, and a form when it has been read: who sends
        it is in there. The URL of an upload session is a credential by itself.
        """
        if request.raw_path.partition("?")[0] == BATCH or is_of_session(request):
            return
        if is_form_upload(request):
            authorize: FormAuthorization = partial(self._authorize_form, request)
            request[FORM_AUTHORIZATION] = authorize
            return
        signer = None
        if self.signatures is not None and is_xml_request(request):
            signer = signer_of(self.signatures, request)
        self._require(request, signer, needs_of(request.method, request.raw_path, request.headers))

    def _authorize_form(self, request: web.Request, signer: Signer | None, bucket: str) -> None:
        try:
            self._require(request, signer, needs_of(request.method, f"/{quote(bucket)}"))
        except CloudError as error:
            raise xml_refusal(error) from None

    def _require(self, request: web.Request, signer: Signer | None, needs: StorageNeeds) -> None:
        if signer is not None:
            account = self.callers.signer(signer, secure=request.secure)
        else:
            account = _storage_caller(self.callers, request, needs)
        if account is not None:
            request[ACCOUNT] = _authorized(account, needs, self.roles_of)


def storage_authorization(
    callers: Authenticator,
    roles_of: ObjectRoles = lambda *_: (),
    signatures: SignatureVerifier | None = None,
) -> Middleware:
    """A middleware that authorizes requests of Cloud Storage.

    `roles_of` returns the roles that the policy of a bucket, and the access control list of an
    object, give some members: it is asked for who lacks a permission in the project. With TLS a
    caller without token has what everybody has.
    """
    authorization = StorageAuthorization(callers, roles_of, signatures)
    return _checked(callers, authorization.check, refusal)


def _authorized(account: iam.Account, needs: StorageNeeds, roles_of: ObjectRoles) -> iam.Account:
    """The account with the roles that it needs beside those in the project; raises CloudError."""
    asked = [permission for permission, _ in needs.of_permissions]
    missing = set(asked).difference(iam.granted_permissions(account, asked))
    members = iam.members_of(account)
    for permission, key in needs.of_permissions:
        if permission in missing:
            local = iam.with_roles(account, roles_of(key, members))
            if not iam.granted_permissions(local, [permission]):
                is_nobody = account.email == iam.ANONYMOUS and not account.roles
                raise permission_denied(account.email, permission, wants_token=is_nobody)
    if missing or not asked:
        return iam.with_roles(account, roles_of(needs.key, members))
    return account


def _storage_caller(
    callers: Authenticator, request: web.Request, needs: StorageNeeds
) -> iam.Account | None:
    """The account that calls; None for one that may do everything. Raises CloudError."""
    asked = needs.of_permissions
    if request.secure and "Authorization" not in request.headers and asked and needs.key.bucket:
        return iam.Account(iam.ANONYMOUS, ())
    return callers.of(request, STORAGE, asked[0][0] if asked else request.method)


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
        except (CloudError, StorageError) as error:
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
