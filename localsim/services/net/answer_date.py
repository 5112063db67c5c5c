"""The Date of HTTP answers by the simulated clock: at Google, it agrees with every other time."""

from collections.abc import Callable
from email.utils import formatdate
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler


def dated(now: Callable[[], float]) -> Any:
    """A middleware that dates each answer; `now` is in seconds since 1970."""

    @web.middleware
    async def date(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            response = await handler(request)
        except web.HTTPException as refusal:
            refusal.headers["Date"] = formatdate(now(), usegmt=True)
            raise
        response.headers["Date"] = formatdate(now(), usegmt=True)
        return response

    return date
