"""The body of a client's request: held whole to be sent again, or passed on as it comes."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from tpuctl.proxy.error_answers import ProxyError, client_timeout, refused
from tpuctl.proxy.proxy_limits import ProxyLimits

BadBody = (web.RequestPayloadError, HttpProcessingError)


@dataclass(slots=True)
class RequestBody:
    """A body that was read whole, or not at all yet."""

    request: web.BaseRequest
    limits: ProxyLimits
    data: bytes = b""
    is_whole: bool = True
    """All of it is in `data`."""
    is_begun: bool = False
    """What cannot be read again was asked for by a connection to a replica."""
    is_done: bool = False
    counted_bytes: int = 0
    """What of the budget it takes."""
    failure: ProxyError | None = None
    """Why the client's part of a stream failed."""
    deadline: asyncio.Timeout | None = None
    """Of a replica that reads no more of a stream."""

    @property
    def is_replayable(self) -> bool:
        """Whether it can be sent from its beginning now."""
        return self.is_whole or not self.is_begun

    @property
    def is_unfinished(self) -> bool:
        """Whether some of a stream was not sent."""
        return not self.is_whole and not self.is_done

    def to_send(self) -> "bytes | AsyncIterator[bytes] | None":
        """The body in the form that aiohttp's client sends."""
        if self.is_whole:
            return self.data or None
        return self._stream()

    async def _stream(self) -> AsyncIterator[bytes]:
        self.is_begun = True
        loop, limits = asyncio.get_running_loop(), self.limits
        is_announced = self.request.content_length is not None
        silence_s = limits.client_silence_s if is_announced else limits.silence_s
        try:
            while part := await read_part(self.request, silence_s):
                self._reschedule(loop.time() + self.limits.silence_s)
                yield part
                self._reschedule(None)
            self.is_done = True
        except ProxyError as error:
            self.failure = error
            raise

    def _reschedule(self, when: float | None) -> None:
        if self.deadline is not None:
            self.deadline.reschedule(when)


@dataclass(slots=True)
class BodyBudget:
    """The bytes of all bodies that are held."""

    left_bytes: int

    def take(self, size_bytes: int) -> bool:
        """Whether a body of that size may be held; if so it is counted."""
        if size_bytes > self.left_bytes:
            return False
        self.left_bytes -= size_bytes
        return True

    def give_back(self, body: RequestBody) -> None:
        """Hold a body no longer."""
        self.left_bytes += body.counted_bytes
        body.counted_bytes = 0


async def read_body(
    request: web.BaseRequest, limits: ProxyLimits, budget: BodyBudget
) -> RequestBody:
    """Read a body whose announced size is held, and nothing of another one; raises ProxyError.

    A body without an announced size may be one half of a conversation, and is never waited for.
    """
    content = request.content
    if content.is_eof() and not content.exception():  # it came with the headers, or there is none
        data = content.read_nowait(-1) if content.total_bytes else b""
        counted_bytes = len(data) if budget.take(len(data)) else 0
        return RequestBody(request, limits, data, counted_bytes=counted_bytes)
    announced = request.content_length
    if announced is None or announced > limits.replay_bytes or not budget.take(announced):
        return RequestBody(request, limits, is_whole=False)
    body = RequestBody(request, limits, counted_bytes=announced)
    parts: list[bytes] = []
    try:
        while part := await read_part(request, limits.client_silence_s):
            parts.append(part)
    except BaseException:
        budget.give_back(body)
        raise
    body.data = b"".join(parts)
    return body


async def read_part(request: web.BaseRequest, silence_s: float) -> bytes:
    """What has come of a body, at least a byte; b"" at its end. Raises ProxyError."""
    try:
        async with asyncio.timeout(silence_s):
            return await request.content.readany()
    except TimeoutError:
        raise client_timeout(silence_s) from None
    except BadBody as error:
        raise refused(400, "bad_request", f"the body cannot be read: {one_line(error)}") from error


def one_line(error: BaseException) -> str:
    """The text of an error, on one line, at most 200 characters of it."""
    return " ".join(str(error).split())[:200] or type(error).__name__
