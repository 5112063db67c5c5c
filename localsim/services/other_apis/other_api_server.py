"""The server of the other APIs, which share one port."""

import inspect
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from localsim.rules.model.cloud_errors import CloudError, Code, unimplemented
from localsim.services.auth import oauth2
from localsim.services.auth.iam import Account
from localsim.services.net.request_guard import require_json
from localsim.services.net.wire_errors import http_error
from localsim.services.other_apis import (
    cloud_billing_skus,
    cloud_logging,
    cloud_monitoring,
    compute,
    resourcemanager,
    secretmanager,
    serviceusage,
)
from localsim.services.other_apis.credentials import credential_methods
from localsim.services.other_apis.other_api_calls import (
    COMPUTE,
    IAM,
    IAM_CREDENTIALS,
    ApiCall,
    ApiMethod,
    HttpRefusal,
    ProjectContext,
    foreign_project_error,
)
from localsim.services.other_apis.project_setup import (
    account_key_methods,
    cloud_billing,
    cloud_quotas,
    firewalls,
    project_policy,
    service_accounts,
    vpc_networks,
)
from localsim.services.rest.json_messages import parse_json

MOST_BYTES = 1024 * 1024
MOST_SHOWN = 200
MESSAGE_METHODS = (
    *cloud_logging.METHODS,
    *cloud_monitoring.METHODS,
    *credential_methods.METHODS,
)
"""What is answered over gRPC as well."""
ROWS = (
    *compute.ROWS,
    *serviceusage.ROWS,
    *resourcemanager.ROWS,
    *secretmanager.ROWS,
    *cloud_billing_skus.ROWS,
    *cloud_billing.ROWS,
    *cloud_quotas.ROWS,
    *firewalls.ROWS,
    *project_policy.ROWS,
    *service_accounts.ROWS,
    *account_key_methods.ROWS,
    *vpc_networks.ROWS,
    *(method.rest() for method in MESSAGE_METHODS),
)
REASONS = {
    400: "invalid",
    401: "required",
    403: "forbidden",
    404: "notFound",
    501: "notImplemented",
}
"""HTTP status -> the reason that Compute Engine's errors carry."""

Authorize = Callable[[web.Request, ApiMethod], Account | None]
"""Who asks, None where nobody needs a token; raises CloudError."""


def application(
    project: ProjectContext,
    granted: Callable[[str], Any],
    middlewares: Sequence[Any],
    authorize: Authorize,
) -> web.Application:
    """Serve all other APIs; `granted` answers assertions with tokens or raises GrantError."""

    async def dispatch(request: web.Request) -> web.StreamResponse:
        if (request.method, request.path) == ("POST", oauth2.PATH):
            return await oauth2.answer_token_request(request, granted)
        return await require_json(request, answer)

    async def answer(request: web.Request) -> web.StreamResponse:
        service = COMPUTE if request.path.startswith("/compute/") else ""
        try:
            row, names = _found(request)
            account = authorize(request, row)
            return web.json_response(await _answered(project, row, names, account, request))
        except CloudError as error:
            status, document = http_error(error)
            return web.json_response(_worded(service, document), status=status)
        except HttpRefusal as refusal:
            body = {"code": refusal.status, "message": refusal.message}
            return web.json_response(
                _worded(COMPUTE, {"error": body}, refusal.reason), status=refusal.status
            )

    app = web.Application(middlewares=middlewares, client_max_size=MOST_BYTES)
    app.router.add_route("*", "/{path:.*}", dispatch)
    return app


async def _answered(
    project: ProjectContext,
    row: ApiMethod,
    names: dict[str, str],
    account: Account | None,
    request: web.Request,
) -> Any:
    asked = names.get("project", project.id)
    own = (
        project.id,
        str(project.number),
        *(("-",) if row.service in (IAM, IAM_CREDENTIALS) else ()),
    )
    if asked not in own:
        raise foreign_project_error(row.service, asked)
    project.require_enabled(row.service)
    try:
        body = parse_json(await request.read())
    except web.HTTPRequestEntityTooLarge:
        sentence = f"Request payload size exceeds the limit: {MOST_BYTES} bytes."
        raise CloudError(Code.INVALID_ARGUMENT, sentence) from None
    if not isinstance(body, dict):
        sentence = "Invalid JSON payload received. Root element must be a message."
        raise CloudError(Code.INVALID_ARGUMENT, sentence)
    origin = f"{request.scheme}://{request.host}"
    reply = row.answer(ApiCall(project, names, request.query, body, origin, account))
    return await reply if inspect.isawaitable(reply) else reply


def _found(request: web.Request) -> tuple[ApiMethod, dict[str, str]]:
    path = request.rel_url.raw_path
    for row in ROWS:
        verb, template = row.http.split()
        match = _compiled(template).fullmatch(path) if verb == request.method else None
        if match:
            return row, {name: unquote(text) for name, text in match.groupdict().items()}
    raise unimplemented(f"{request.method} {path[:MOST_SHOWN]}")


@cache
def _compiled(template: str) -> re.Pattern[str]:
    """The pattern of a path, compiled when the first request may be about it.

    To compile all of them would delay every start of a simulator.
    """
    pattern = template.replace("{version}", "(?P<version>v[0-9][0-9a-z]*|alpha|beta)")
    return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/:]+)", pattern))


def _worded(service: str, document: dict[str, Any], reason: str = "") -> dict[str, Any]:
    """The error document; Compute Engine's has a list of errors besides."""
    if service != COMPUTE:
        return document
    error = document["error"]
    why = reason or REASONS.get(error["code"], "backendError")
    first = {"message": error["message"], "domain": "global", "reason": why}
    return {"error": {**error, "errors": [first]}}
