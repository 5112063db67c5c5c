"""The token endpoint of OAuth 2: an access token for an assertion that a service account signed."""

from collections.abc import Callable
from typing import Any, NoReturn
from urllib.parse import parse_qsl

from aiohttp import web

from localsim.services.auth.tokens import GRANT_TYPE, GrantError

PATH = "/token"
MOST_FIELDS = 16


async def answer_token_request(request: web.Request, granted: Callable[[str], Any]) -> web.Response:
    """Answer a form with `grant_type` and `assertion` (RFC 7523); no reply is cached."""
    try:
        reply, status = granted(await _assertion(request)), 200
    except GrantError as error:
        reply, status = {"error": error.error, "error_description": error.description}, 400
    return web.json_response(reply, status=status, headers={"Cache-Control": "no-store"})


def refuse_assertion(_assertion: str) -> NoReturn:
    """Refuse an assertion where no service account has a key."""
    raise GrantError("invalid_grant", "Invalid grant: account not found")


async def _assertion(request: web.Request) -> str:
    """The assertion in the body, which is ASCII whatever charset it claims; raises GrantError."""
    try:
        form = (await request.read()).decode("ascii")
        fields = dict(parse_qsl(form, max_num_fields=MOST_FIELDS))
    except (web.RequestPayloadError, web.HTTPRequestEntityTooLarge, ValueError):
        raise GrantError("invalid_request", "The form cannot be read.") from None
    if fields.get("grant_type") != GRANT_TYPE:
        raise GrantError("unsupported_grant_type", "Only JWT bearer grants are served here.")
    if not fields.get("assertion"):
        raise GrantError("invalid_request", "Missing required parameter: assertion")
    return fields["assertion"]
