"""The one part of a worker's metadata server that programs write: instance/guest-attributes.

Paths, methods, names and the answer of a disabled endpoint are Compute Engine's documented or
observed ones; the codes of the other refusals and the size limit are assumed.
"""

import re

from aiohttp import web
from aiohttp.typedefs import Handler

from localsim.workers.spec import AttributeNotPublishedError
from localsim.workers.worker import Worker

MAX_VALUE_BYTES = 32 * 1024
PATH = "/computeMetadata/v1/instance/guest-attributes"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
_TRY_AGAIN = "The value could not be stored, try again later\n"


def add_routes(application: web.Application, worker: Worker) -> None:
    """Let programs put and delete entries, unless the node's metadata forbids it."""

    async def put(request: web.Request) -> web.Response:
        """Set one entry to the request's body; answers when the control plane has it."""
        namespace, key = _entry(request)
        try:
            value = (await request.read()).decode()  # more than MAX_VALUE_BYTES is refused: 413
        except UnicodeDecodeError:
            raise web.HTTPBadRequest(text="The value is not UTF-8\n") from None
        await worker.guest_attributes.put(namespace, key, value)
        return web.Response()

    async def delete(request: web.Request) -> web.Response:
        """Remove one entry."""
        try:
            await worker.guest_attributes.delete(*_entry(request))
        except KeyError:
            raise web.HTTPNotFound(text="Not Found\n") from None
        return web.Response()

    @web.middleware
    async def enabled(request: web.Request, handler: Handler) -> web.StreamResponse:
        is_off = worker.attribute("enable-guest-attributes").upper() == "FALSE"
        if is_off and f"{request.path}/".startswith(f"{PATH}/"):
            raise web.HTTPForbidden(text="Guest attributes endpoint access is disabled.\n")
        try:
            return await handler(request)
        except AttributeNotPublishedError:
            raise web.HTTPServiceUnavailable(text=_TRY_AGAIN) from None

    application.router.add_put(f"{PATH}/{{namespace}}/{{key}}", put)
    application.router.add_delete(f"{PATH}/{{namespace}}/{{key}}", delete)
    application.middlewares.append(enabled)


def _entry(request: web.Request) -> tuple[str, str]:
    namespace, key = request.match_info["namespace"], request.match_info["key"]
    if not (_NAME.fullmatch(namespace) and _NAME.fullmatch(key)):
        raise web.HTTPBadRequest(text="A namespace and a key have letters, digits, _ and - only\n")
    return namespace, key
