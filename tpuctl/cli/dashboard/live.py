"""Server-sent events: the sections of a page that have changed, as long as somebody reads."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress

from aiohttp import web

from tpuctl.cli.dashboard.page import Page
from tpuctl.errors import TpuctlError

EVENT_STREAM = "text/event-stream"
AGAIN_S = 5.0
"""After an error."""
Pause = Callable[[float], Awaitable[None]]


def wants_events(request: web.Request) -> bool:
    """Whether the browser asks for what changes on the page, not for the page."""
    return request.headers.get("Accept", "") == EVENT_STREAM


async def stream(
    request: web.Request, make_page: Callable[[], Awaitable[Page]], pause: Pause
) -> web.StreamResponse:
    """Send every section once, then those that change, until the reader goes or all is over."""
    response = web.StreamResponse(headers={"Content-Type": EVENT_STREAM})
    await response.prepare(request)
    sent: dict[str, str] = {}
    with suppress(ConnectionError, asyncio.CancelledError):
        while True:
            every_s = await _send_changes(response, make_page, sent)
            if every_s is None:
                return response
            await pause(every_s)
    return response


async def _send_changes(
    response: web.StreamResponse, make_page: Callable[[], Awaitable[Page]], sent: dict[str, str]
) -> float | None:
    """Send what has changed since; returns in how many seconds to look again, None: never."""
    try:
        page = await make_page()
    except TpuctlError as error:
        await _send(response, "trouble", str(error))
        return AGAIN_S
    changed = {key: html for key, html in page.live.items() if sent.get(key) != html}
    sent.update(changed)
    await _send(response, "sections", changed)  # even none: a reader who is gone is noticed
    if page.is_over:
        await _send(response, "over", "")
    return None if page.is_over else page.every_s


async def _send(response: web.StreamResponse, event: str, data: object) -> None:
    await response.write(f"event: {event}\ndata: {json.dumps(data)}\n\n".encode())
