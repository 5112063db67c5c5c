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
        reply, status = granted(_assertion(await _form(request))), 200
    except GrantError as error:
        reply, status = {"error": error.error, "error_description": error.description}, 400
    return web.json_response(reply, status=status, headers={"Cache-Control": "no-store"})


def refuse_assertion(_assertion: str) -> NoReturn:
    """Refuse an assertion where no service account has a key."""
    raise GrantError("invalid_grant", "Invalid grant: account not found")


async def _form(request: web.Request) -> str:
    """The fields of the body, which is ASCII whatever charset it claims; raises GrantError."""
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
