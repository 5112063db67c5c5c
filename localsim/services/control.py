"""`control`: preemption, reset and the clock, for the owner's token alone."""

import hmac
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from localsim.cloud.errors import CloudError

MOST_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Controls:
    """What the control port can do; given by the server."""

    preempt: Callable[[str, str, float | None], Awaitable[None]]
    advance: Callable[[float], Awaitable[float]]
    now: Callable[[], float]
    reset: Callable[[], Awaitable[None]]
    status: Callable[[], dict[str, Any]]


def application(controls: Controls, token: str, middlewares: Iterable[Any]) -> web.Application:
    """The control port; every request carries `Authorization: Bearer TOKEN`."""
    app = web.Application(
        middlewares=[*middlewares, _authorized(token)], client_max_size=MOST_BYTES
    )
    app.add_routes(
        [
            web.get("/status", lambda _: _status(controls)),
            web.get("/clock", lambda _: _clock(controls)),
            web.post("/clock", lambda request: _advance(controls, request)),
            web.post("/preempt", lambda request: _preempt(controls, request)),
            web.post("/reset", lambda _: _reset(controls)),
        ]
    )
    return app


def _authorized(token: str) -> Any:
    @web.middleware
    async def check(request: web.Request, handler: Any) -> web.StreamResponse:
        given = request.headers.get("Authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
            return _error(401, "the control token is missing or wrong")
        try:
            response: web.StreamResponse = await handler(request)
        except CloudError as error:
            return _error(404 if error.code.name == "NOT_FOUND" else 409, error.message)
        except (ValueError, TypeError, KeyError) as error:
            return _error(400, f"bad request: {error}")
        return response

    return check


async def _status(controls: Controls) -> web.Response:
    return web.json_response(controls.status())


async def _clock(controls: Controls) -> web.Response:
    return web.json_response({"now_s": controls.now()})


async def _advance(controls: Controls, request: web.Request) -> web.Response:
    seconds = float((await request.json())["advance_s"])
    return web.json_response({"now_s": await controls.advance(seconds)})


async def _preempt(controls: Controls, request: web.Request) -> web.Response:
    body = await request.json()
    notice_s = body.get("notice_s")
    await controls.preempt(
        str(body["node"]), str(body["zone"]), None if notice_s is None else float(notice_s)
    )
    return web.json_response({})


async def _reset(controls: Controls) -> web.Response:
    await controls.reset()
    return web.json_response({})


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": message}, status=status)
