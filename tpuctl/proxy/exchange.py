"""One request of a client: a replica for it, the request there, and the answer back.

A request goes to another replica when the one chosen took no connection, so that nothing was sent;
when it refused the request, by 503 with Retry-After, which an engine says that is about to end; or
when it may be repeated. No byte of an answer has gone to the client then, and the body can be sent
again. What may be repeated says the method, a header Idempotency-Key, or who runs the engine.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp
from aiohttp import web
from yarl import URL

from tpuctl.proxy import header_rules
from tpuctl.proxy.access_control import AccessControl
from tpuctl.proxy.error_answers import (
    ProxyError,
    bad_answer,
    no_replica,
    proxy_exhausted,
    refused,
    replica_failed,
    replica_refused,
    replica_timeout,
)
from tpuctl.proxy.proxy_limits import ProxyLimits
from tpuctl.proxy.replica_connections import ExhaustedError, ReplicaSession, UnreachableError
from tpuctl.proxy.replica_health import AnswerResult
from tpuctl.proxy.replica_pool import PooledReplica, ReplicaPool
from tpuctl.proxy.request_body import BodyBudget, RequestBody, one_line, read_body
from tpuctl.proxy.traffic_counters import CLIENT_GONE, TrafficCounters
from tpuctl.proxy.upgraded_tunnel import UpgradedTunnel

if TYPE_CHECKING:
    from multidict import CIMultiDict

REPEATABLE = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
"""https://www.rfc-editor.org/rfc/rfc9110#section-9.2.2"""
IDEMPOTENCY_KEY = "Idempotency-Key"
WITHOUT_BODY = frozenset({204, 304})
SWITCHING, UNAVAILABLE = 101, 503
RETRY_AFTER = "Retry-After"
SMALL_BYTES = 64 * 1024
"""What is smaller fits into the buffers of a connection, and needs no deadline of its own."""
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
BROKEN_OFF = 0
"""The status in the counters of an answer that a replica broke off in the middle."""


class AttemptError(Exception):
    """A replica did not answer."""

    def __init__(self, answer: ProxyError, *, was_sent: bool = True) -> None:
        super().__init__(answer.message)
        self.answer = answer
        self.was_sent = was_sent


@dataclass(slots=True)
class ExchangeParts:
    """What all requests of a proxy share."""

    pool: ReplicaPool
    session: ReplicaSession
    limits: ProxyLimits
    access: AccessControl
    counters: TrafficCounters
    monotonic: Callable[[], float]
    new_id: Callable[[], str]
    say: Callable[[str], None]
    budget: BodyBudget
    hurry_probes: Callable[[], None]
    is_ending: bool = False
    """The proxy waits no longer for requests in flight."""


class Exchange:
    """A request on its way; `answer` is to be called once."""

    __slots__ = (
        "_began_s", "_body", "_id", "_is_counted", "_number", "_parts", "_request", "_upgrade",
    )  # fmt: skip

    def __init__(self, parts: ExchangeParts, request: web.BaseRequest) -> None:
        self._parts = parts
        self._request = request
        self._began_s = parts.monotonic()
        self._number = ""
        given = request.headers.get(header_rules.REQUEST_ID, "")
        self._id = given if header_rules.is_sane_request_id(given) else parts.new_id()
        self._upgrade = ""
        self._body: RequestBody | None = None
        self._is_counted = False

    async def answer(self) -> web.StreamResponse:
        """The answer, which has been sent unless all of it was there at once."""
        try:
            if error := self._parts.access.refusal(self._request):
                return self._error_answer(error)
            self._upgrade = upgrade_of(self._request)
            await self._say_continue()
            parts = self._parts
            self._body = body = await read_body(self._request, parts.limits, parts.budget)
            try:
                return await self._send(body)
            finally:
                parts.budget.give_back(body)
        except ProxyError as error:
            answer = self._error_answer(error)
            if error.status == 408:
                await self._send_last(answer)
            return answer
        except asyncio.CancelledError:
            self._note_client_gone()
            raise
        except (ConnectionError, TimeoutError):  # gone, or it reads no more
            self._note_client_gone()
            self._abort()
            return web.Response(status=CLIENT_GONE)

    def _note_client_gone(self) -> None:
        if not self._is_counted:  # a WebSocket ends like this
            self._count(CLIENT_GONE)
            ended = "the proxy ended" if self._parts.is_ending else "the client went away"
            self._say(f"{ended} before the answer was complete")

    async def _say_continue(self) -> None:
        """Have a client send its body that waits for permission; raises ProxyError."""
        expected = self._request.headers.get("Expect")
        if expected is None or self._request.version < aiohttp.HttpVersion11:
            return
        if expected.lower() != "100-continue":
            raise refused(417, "expectation_failed", "only 100-continue may be expected")
        if self._request.transport is not None:
            self._request.transport.write(CONTINUE)

    async def _send(self, body: RequestBody) -> web.StreamResponse:
        """Give the request to replicas, one after the other, until one answers."""
        request, parts = self._request, self._parts
        may_repeat = (
            parts.limits.repeats_posts
            or request.method in REPEATABLE
            or IDEMPOTENCY_KEY in request.headers
        )
        failed: dict[PooledReplica, int] = {}
        last: ProxyError | None = None
        for left in reversed(range(parts.limits.tries)):
            try:
                admission = await parts.pool.admit(failed)
            except ProxyError as error:
                raise last or error from None
            if last is not None:
                self._say(f"sent again: {last.message} {last.detail}".rstrip())
                parts.counters.retries[self._number] += 1
            with admission as replica:
                self._number = str(replica.target.number)
                failed[replica] = replica.stay
                try:
                    may_refuse = left > 0 and parts.pool.has_other(failed)
                    return await self._attempt(replica, body, may_refuse=may_refuse)
                except AttemptError as error:
                    last = error.answer
                    is_safe = may_repeat or not error.was_sent
                    if not (is_safe and body.is_replayable) or last.status == 504:
                        break
        assert last is not None
        raise last

    async def _attempt(
        self, replica: PooledReplica, body: RequestBody, *, may_refuse: bool
    ) -> web.StreamResponse:
        """Send the request to a replica and its answer to the client; raises AttemptError.

        `may_refuse`: there is another replica for what this one refuses.
        """
        upstream = await self._ask(replica, body)
        parts = self._parts
        try:
            if may_refuse and body.is_replayable and is_refusal(upstream):
                parts.pool.answer(replica, AnswerResult.SERVER_ERROR)
                parts.hurry_probes()
                raise AttemptError(replica_refused(), was_sent=False)
            body.data = b""
            parts.budget.give_back(body)
            parts.counters.first_byte.add(parts.monotonic() - self._began_s)
            if upstream.status == SWITCHING:
                return await self._tunnel(replica, upstream)
            return await self._pass_answer(replica, upstream)
        finally:
            if not upstream.content.is_eof() or body.is_unfinished:
                upstream.close()

    async def _ask(self, replica: PooledReplica, body: RequestBody) -> aiohttp.ClientResponse:
        """The answer's beginning; raises AttemptError, ProxyError."""
        try:
            if body.is_whole and len(body.data) < SMALL_BYTES:
                return await self._request_replica(replica, body)
            return await self._send_large(replica, body)
        except (UnreachableError, ExhaustedError) as error:
            raise self._connection_error(replica, error) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:  # a timeout is an OSError
            raise self._answer_error(replica, body, error) from error

    async def _send_large(
        self, replica: PooledReplica, body: RequestBody
    ) -> aiohttp.ClientResponse:
        """The answer's beginning, with a deadline for a replica that reads no more."""
        async with asyncio.timeout(None) as deadline:
            if body.is_whole:
                silence_s = self._parts.limits.silence_s
                deadline.reschedule(asyncio.get_running_loop().time() + silence_s)
            else:
                body.deadline = deadline
            try:
                return await self._request_replica(replica, body)
            finally:
                body.deadline = None

    def _connection_error(self, replica: PooledReplica, error: Exception) -> Exception:
        """What is raised when no connection was made."""
        if isinstance(error, ExhaustedError):
            return proxy_exhausted(str(error))
        self._fail(replica, AnswerResult.UNREACHABLE, str(error))
        answer = no_replica("the replica cannot be reached", detail=str(error))
        return AttemptError(answer, was_sent=False)

    def _answer_error(
        self, replica: PooledReplica, body: RequestBody, error: Exception
    ) -> Exception:
        """What is raised when a replica did not begin its answer."""
        if body.failure is not None:
            return body.failure
        if isinstance(error, ValueError):  # before anything was sent
            return refused(400, "bad_request", f"it cannot be passed on: {one_line(error)}")
        silence_s = self._parts.limits.silence_s
        is_late = isinstance(error, TimeoutError)
        why = f"no answer within {silence_s:g} s" if is_late else one_line(error)
        self._fail(replica, AnswerResult.FAILED, why)
        if is_late:
            return AttemptError(replica_timeout(silence_s))
        if isinstance(error, aiohttp.ClientResponseError):
            return AttemptError(bad_answer(why))
        return AttemptError(replica_failed(why))

    async def _request_replica(
        self, replica: PooledReplica, body: RequestBody
    ) -> aiohttp.ClientResponse:
        parts, request = self._parts, self._request
        url = URL(parts.session.origin(replica.target.address) + request.raw_path, encoded=True)
        return await parts.session.request(
            request.method,
            url,
            headers=self._request_headers(replica),
            data=body.to_send(),
            allow_redirects=False,
        )

    def _request_headers(self, replica: PooledReplica) -> "CIMultiDict[str]":
        request = self._request
        headers = header_rules.request_headers(
            request.headers, request.remote or "", request.scheme, self._id, upgrade=self._upgrade
        )
        if self._parts.access.takes_authorization:
            headers.popall(header_rules.AUTHORIZATION, None)
        address = replica.target.address
        headers.setdefault(header_rules.HOST, f"{address.ip_address}:{address.port}")
        return headers

    async def _pass_answer(
        self, replica: PooledReplica, upstream: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        """Send an answer to the client, as it comes; raises AttemptError, ConnectionError."""
        status, content = upstream.status, upstream.content
        headers = header_rules.answer_headers(upstream.headers, self._id)
        is_short = content.is_eof() and status not in WITHOUT_BODY
        if is_short and self._request.method != "HEAD":
            data = content.read_nowait(-1) if content.total_bytes else b""
            self._end(replica, status)
            return web.Response(status=status, reason=upstream.reason, headers=headers, body=data)
        response = web.StreamResponse(status=status, reason=upstream.reason, headers=headers)
        await response.prepare(self._request)
        if await self._copy(replica, content, response):
            await response.write_eof()
            self._end(replica, status)
        return response

    async def _copy(
        self,
        replica: PooledReplica,
        content: aiohttp.StreamReader,
        response: web.StreamResponse,
    ) -> bool:
        """Copy a body; False, with the client's connection broken, when the replica breaks off."""
        while True:
            try:
                part = await content.readany()
            except (aiohttp.ClientError, OSError, ValueError) as error:  # a timeout is an OSError
                why = one_line(error)
                if self._body is not None and self._body.failure is not None:
                    why = str(self._body.failure)  # of the client, which broke the connection
                else:
                    self._fail(replica, AnswerResult.FAILED, why)
                self._count(BROKEN_OFF)
                self._say(f"broken off in the middle of the answer: {why}")
                self._abort()
                return False
            if not part:
                return True
            async with asyncio.timeout(self._parts.limits.client_silence_s):
                await response.write(part)

    async def _tunnel(
        self, replica: PooledReplica, upstream: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        """Carry bytes both ways after the replica has taken the upgrade."""
        request, connection = self._request, upstream.connection
        if not self._upgrade or connection is None or connection.protocol is None:
            self._fail(replica, AnswerResult.FAILED, "it switched protocols without being asked")
            raise bad_answer("it switched protocols without being asked")
        replica_side = connection.protocol
        replica_side.read_timeout = None
        headers = header_rules.answer_headers(upstream.headers, self._id, upgrade=self._upgrade)
        response = web.StreamResponse(status=SWITCHING, reason=upstream.reason, headers=headers)
        await response.prepare(request)
        tunnel = UpgradedTunnel(request.protocol, replica_side)
        request.protocol.keep_alive(val=False)
        request.protocol.set_parser(tunnel.from_client)  # type: ignore[arg-type]
        replica_side.set_parser(tunnel.from_replica, None)
        try:
            await tunnel.carry()
        finally:
            connection.close()
            self._end(replica, SWITCHING)
            if request.transport is not None:
                request.transport.close()
        return response

    def _fail(self, replica: PooledReplica, result: AnswerResult, why: str) -> None:
        self._parts.pool.answer(replica, result, why)

    def _end(self, replica: PooledReplica, status: int) -> None:
        is_error = status >= 500
        result = AnswerResult.SERVER_ERROR if is_error else AnswerResult.GOOD
        self._parts.pool.answer(replica, result)
        self._count(status)

    def _count(self, status: int) -> None:
        """Count the request, by what became of it first."""
        if self._is_counted:
            return
        self._is_counted = True
        counters = self._parts.counters
        counters.requests[self._number, status] += 1
        counters.whole.add(self._parts.monotonic() - self._began_s)

    def _error_answer(self, error: ProxyError) -> web.Response:
        self._count(error.status)
        detail = f": {error.detail}" if error.detail else ""
        self._say(f"{error.status} {error.code}: {error.message}{detail}")
        headers = {**error.headers, header_rules.REQUEST_ID: self._id, "Server": "tpuctl"}
        response = web.Response(
            status=error.status, body=error.body(), headers=headers, content_type="application/json"
        )
        if self._body is None or self._body.is_unfinished:
            response.force_close()
        return response

    async def _send_last(self, answer: web.Response) -> None:
        """Send an answer and close the connection: nothing more is expected of the client."""
        with suppress(ConnectionError):
            await answer.prepare(self._request)
            await answer.write_eof()
        if self._request.transport is not None:
            self._request.transport.close()

    def _abort(self) -> None:
        """Break the client's connection, so that it knows that the answer is not complete."""
        with suppress(AttributeError):
            self._request.transport.abort()  # type: ignore[union-attr]

    def _say(self, text: str) -> None:
        """Write one line about the request; what a client chose is cut and escaped."""
        path = self._request.raw_path.partition("?")[0][:200]
        place = f" replica {self._number}:" if self._number else ""
        shown = path.encode("ascii", "backslashreplace").decode()
        self._parts.say(f"{self._id} {self._request.method} {shown}:{place} {text}")


def is_refusal(answer: aiohttp.ClientResponse) -> bool:
    """Whether an engine says that it has not begun with a request, and takes none now."""
    return answer.status == UNAVAILABLE and RETRY_AFTER in answer.headers


def upgrade_of(request: web.BaseRequest) -> str:
    """The protocol that a request asks to switch to, if it is one that is passed on."""
    headers = request.headers
    wanted = headers.get(header_rules.UPGRADE, "")
    named = headers.get(header_rules.CONNECTION, "").lower()
    is_asked = any(each.strip() == "upgrade" for each in named.split(","))
    return "websocket" if is_asked and wanted.lower() == "websocket" else ""
