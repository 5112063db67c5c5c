"""OAuth 2's token endpoint: an access token for the assertion that a service account has signed."""

from collections.abc import Callable
from typing import Any, NoReturn
from urllib.parse import parse_qsl

from aiohttp import web

from localsim.services.auth.tokens import GRANT_TYPE, GrantError

PATH = "/token"
MOST_FIELDS = 16


async def answer_token_request(request: web.Request, granted: Callable[[str], Any]) -> web.Response:
    """RFC 7523: `grant_type` and `assertion` in a form; the reply is never to be kept."""
    try:
        reply, status = granted(_assertion(await _form(request))), 200
    except GrantError as error:
        reply, status = {"error": error.error, "error_description": error.description}, 400
    return web.json_response(reply, status=status, headers={"Cache-Control": "no-store"})


def refuse_assertion(_assertion: str) -> NoReturn:
    """What answers assertions where no service account has a key."""
    raise GrantError("invalid_grant", "Invalid grant: account not found")


async def _form(request: web.Request) -> str:
    """The body, which is ASCII whatever charset it claims; raises GrantError."""
    try:
        return (await request.read()).decode("ascii")
    except (web.RequestPayloadError, web.HTTPRequestEntityTooLarge, UnicodeDecodeError):
        raise GrantError("invalid_request", "The form cannot be read.") from None


def _assertion(form: str) -> str:
    try:
        fields = dict(parse_qsl(form, max_num_fields=MOST_FIELDS))
    except ValueError:
        raise GrantError("invalid_request", "The form cannot be read.") from None
    if fields.get("grant_type") != GRANT_TYPE:
        raise GrantError("unsupported_grant_type", "Only JWT bearer grants are served here.")
    if not fields.get("assertion"):
        raise GrantError("invalid_request", "Missing required parameter: assertion")
    return fields["assertion"]
