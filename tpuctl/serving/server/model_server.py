"""Answers the requests of all connections: predictions, health, metadata, metrics."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, NamedTuple, TypeVar

from tpuctl.serving.batching.batch_queue import Outcome, WaitingRequest
from tpuctl.serving.http1.connection import HttpConnection, HttpRequest
from tpuctl.serving.http1.request_head import RequestHead
from tpuctl.serving.program import describe_exception
from tpuctl.serving.protocol.infer_request import (
    LARGE_JSON_BYTES,
    InferRequest,
    RequestRules,
    decode_request,
)
from tpuctl.serving.protocol.infer_response import InferResponse, ResponseEncoder
from tpuctl.serving.protocol.model_documents import ModelInfo, model_metadata, server_metadata
from tpuctl.serving.protocol.paths import parse_model_path
from tpuctl.serving.protocol.protocol_error import (
    ProtocolError,
    bad_request,
    short_text,
    wrong_method,
)
from tpuctl.serving.server.batch_dispatcher import BatchDispatcher
from tpuctl.serving.server.line_log import LineLog
from tpuctl.serving.server.server_metrics import MEDIA_TYPE, ServerMetrics
from tpuctl.serving.server.server_options import ServerOptions

T = TypeVar("T")

JSON = "application/json"
BINARY = "application/octet-stream"
READ_BYTES = 64 * 1024
JSON_LENGTH = "inference-header-content-length"
LARGE_OUTPUT_VALUES = 32 * 1024
"""An answer with more values is written in a thread of its own."""


class ServerLoop(NamedTuple):
    """How the server's own thread, its event loop, is used."""

    schedule: Callable[[Callable[[], None]], object]
    """Calls a function once all that clients have sent is read."""
    run_aside: Callable[[Callable[[], Any], Callable[[Any], None]], object]
    """Calls the first function in another thread, then the second one in the server's.

    The second one gets what the first one returned, or the exception that it raised.
    """


class ServerPhase(Enum):
    """What the server does."""

    LOADING = "the model is being loaded"
    READY = "ready"
    DRAINING = "the server is about to stop"
    """It is not ready any more; requests that still come are served."""
    STOPPING = "the server stops"
    """Requests that it has are answered, others refused."""


class ModelServer:
    """The server of one model, but for its sockets and its thread."""

    def __init__(
        self,
        options: ServerOptions,
        dispatcher: BatchDispatcher,
        metrics: ServerMetrics,
        log: LineLog,
        clock: Callable[[], float],
        loop: ServerLoop,
    ) -> None:
        """Load: `show_model` makes it ready.

        Large bodies are read and written aside, so that others are answered meanwhile.
        """
        self.limits = options.http_limits
        self.read_buffer = memoryview(bytearray(READ_BYTES))
        self.phase = ServerPhase.LOADING
        self.connections: set[HttpConnection] = set()
        self._options = options
        self._dispatcher = dispatcher
        self._metrics = metrics
        self._log = log
        self._clock = clock
        self._loop = loop
        self._is_scheduled = False
        self._body_bytes = 0
        self._being_read: set[HttpConnection] = set()
        """Those whose large request is being read."""
        self._waiting: dict[HttpConnection, WaitingRequest] = {}
        self._model: ModelInfo | None = None
        self._rules = RequestRules({}, 0)
        self._encoder = ResponseEncoder("", "")
        self._infer_paths: frozenset[str] = frozenset()
        self._pages: dict[str, Callable[[], tuple[int, bytes, str]]] = {
            "/v2": lambda: _document(server_metadata()),
            "/v2/health/live": lambda: _document({"live": True}),
            "/v2/health/ready": self._ready_page,
            "/health": self._ready_page,
            "/metrics": lambda: (200, self._metrics_text().encode(), MEDIA_TYPE),
        }

    @property
    def closes_connections(self) -> bool:
        """Whether the next answer of each connection is its last: the server is about to stop."""
        return self.phase in (ServerPhase.DRAINING, ServerPhase.STOPPING)

    @property
    def is_ready(self) -> bool:
        """Whether requests may be routed here: not while the model does not come back."""
        is_stuck = self._dispatcher.running_s() > self._options.deadline_s
        return self.phase is ServerPhase.READY and not is_stuck

    @property
    def is_at_rest(self) -> bool:
        """Whether no request is being read, predicted or answered."""
        return not self._dispatcher.in_flight and not any(
            connection.is_busy or connection.has_unsent for connection in self.connections
        )

    def show_model(self, model: ModelInfo) -> None:
        """Begin to serve a model that is loaded and warm."""
        self._model = model
        self._rules = RequestRules(
            model.inputs, self._options.max_batch, not self._options.allows_non_finite
        )
        self._encoder = ResponseEncoder(model.name, model.version)
        path = f"/v2/models/{model.name}"
        self._infer_paths = frozenset({f"{path}/infer", f"{path}/versions/{model.version}/infer"})
        if self.phase is ServerPhase.LOADING:
            self.phase = ServerPhase.READY

    def stop(self) -> None:
        """Refuse new requests; close the connections that wait for one."""
        self.phase = ServerPhase.STOPPING
        for connection in list(self.connections):
            if not connection.is_busy:
                connection.close()

    def open_connection(self, connection: HttpConnection) -> bool:
        """Take note of a connection; when there are too many, one that is idle gives way."""
        if len(self.connections) >= self.limits.max_connections:
            idle = (each for each in self.connections if not each.is_busy)
            oldest = min(idle, key=lambda each: each.began_s, default=None)
            if oldest is None:
                return False
            self.connections.discard(oldest)
            oldest.abort()
        self.connections.add(connection)
        return True

    def forget_connection(self, connection: HttpConnection) -> None:
        """Drop what a client asked for that is gone."""
        self.connections.discard(connection)
        self._being_read.discard(connection)
        waiting = self._waiting.pop(connection, None)
        if waiting is not None:
            self._dispatcher.abandon(waiting)

    def reserve_bytes(self, count: int) -> bool:
        """Take so much memory for a body, or give it back; False when there is not so much."""
        if self._body_bytes + count > self.limits.max_total_bytes:
            return False
        self._body_bytes += count
        return True

    def handle(self, connection: HttpConnection, request: HttpRequest) -> None:
        """Answer a request, or let it wait for the model; raises ProtocolError."""
        head = request.head
        if head.target in self._infer_paths and head.method == "POST":
            self._infer(connection, request)
            return
        page = self._pages.get(head.target.partition("?")[0])
        if page is not None:
            if head.method not in ("GET", "HEAD"):
                raise wrong_method(head.method, "GET")
            status, body, media_type = page()
            connection.respond(status, body, media_type=media_type)
            return
        self._answer_model_path(connection, request)

    def refuse(
        self, connection: HttpConnection, error: ProtocolError, head: RequestHead | None
    ) -> None:
        """Answer with an error of the protocol, and log a line."""
        what = "a request" if head is None else f"{head.method} {short_text(head.target)[1:-1]}"
        if head is None or head.target.endswith("/infer"):
            self._metrics.answers[error.status] += 1
        self._log.error(f"{error.status} to {connection.peer} for {what}: {error.message}")
        headers = "" if error.retry_after_s is None else f"Retry-After: {error.retry_after_s}\r\n"
        headers += f"Allow: {error.allow}\r\n" if error.allow else ""
        body = json.dumps({"error": error.message}).encode()
        connection.respond(
            error.status, body, media_type=JSON, headers=headers, closes=error.closes
        )

    def _infer(self, connection: HttpConnection, request: HttpRequest) -> None:
        if self.phase in (ServerPhase.LOADING, ServerPhase.STOPPING):
            raise ProtocolError(503, self.phase.value, retry_after_s=1)
        json_bytes, arrived_s = _json_bytes(request.head), self._clock()
        read = partial(decode_request, request.body, json_bytes, self._rules)
        if (len(request.body) if json_bytes is None else json_bytes) <= LARGE_JSON_BYTES:
            self._submit(connection, read(), arrived_s)
            return
        self._being_read.add(connection)
        self._loop.run_aside(read, partial(self._take_large, connection, arrived_s))

    def _take_large(
        self, connection: HttpConnection, arrived_s: float, outcome: InferRequest | Exception
    ) -> None:
        """Let a large request wait for the model, now that it is read."""
        if connection not in self._being_read:
            return  # the client is gone
        self._being_read.discard(connection)
        try:
            self._submit(connection, _result_of(outcome, "the request cannot be read"), arrived_s)
        except ProtocolError as error:
            connection.refuse(error)

    def _submit(self, connection: HttpConnection, asked: InferRequest, arrived_s: float) -> None:
        allowed_s = min(self._options.deadline_s, asked.timeout_s or self._options.deadline_s)
        answer = partial(self._answer, connection)
        waiting = WaitingRequest(asked, arrived_s, arrived_s + allowed_s, answer)
        self._dispatcher.submit(waiting)
        self._waiting[connection] = waiting
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.schedule(self._start_batch)

    def _start_batch(self) -> None:
        self._is_scheduled = False
        self._dispatcher.start_batch()

    def _answer(
        self, connection: HttpConnection, waiting: WaitingRequest, outcome: Outcome
    ) -> None:
        self._waiting.pop(connection, None)
        if isinstance(outcome, ProtocolError):
            connection.refuse(outcome)
            return
        write = partial(self._encoder.encode, waiting.request, outcome)
        if sum(array.size for array in outcome.values()) > LARGE_OUTPUT_VALUES:
            self._loop.run_aside(write, partial(self._send, connection))
            return
        try:
            response: InferResponse | Exception = write()
        except Exception as error:  # noqa: BLE001 (answered: the others of the batch follow)
            response = error
        self._send(connection, response)

    def _send(self, connection: HttpConnection, outcome: InferResponse | Exception) -> None:
        try:
            response = _result_of(outcome, "the outputs cannot be written")
        except ProtocolError as error:
            connection.refuse(error)
            return
        self._metrics.answers[200] += 1
        if response.json_bytes is None:
            connection.respond(200, response.body, media_type=JSON)
            return
        headers = f"Inference-Header-Content-Length: {response.json_bytes}\r\n"
        connection.respond(200, response.body, media_type=BINARY, headers=headers)

    def _answer_model_path(self, connection: HttpConnection, request: HttpRequest) -> None:
        path = parse_model_path(request.head.method, request.head.target)
        model = self._model
        if model is None:
            raise ProtocolError(503, self.phase.value, retry_after_s=1)
        if path.name != model.name:
            raise ProtocolError(
                404, f"there is no model {short_text(path.name)}; this server has {model.name}"
            )
        if path.version not in (None, model.version):
            text = f"model {model.name} has no version {short_text(path.version)}"
            raise ProtocolError(404, f"{text}; it has {model.version}")
        if path.verb == "infer":
            self._infer(connection, request)
            return
        status, body, media_type = (
            self._ready_page() if path.verb == "ready" else _document(model_metadata(model))
        )
        connection.respond(status, body, media_type=media_type)

    def _ready_page(self) -> tuple[int, bytes, str]:
        return _document({"ready": self.is_ready}, 200 if self.is_ready else 503)

    def _metrics_text(self) -> str:
        return self._metrics.text(
            {
                "in_flight": self._dispatcher.in_flight,
                "queued_rows": self._dispatcher.queued_rows,
                "connections": len(self.connections),
                "ready": int(self.is_ready),
            }
        )


def _document(content: dict[str, Any], status: int = 200) -> tuple[int, bytes, str]:
    return status, json.dumps(content).encode(), JSON


def _result_of(outcome: T | Exception, failure: str) -> T:
    """What a function returned; raises ProtocolError for what it raised."""
    if isinstance(outcome, ProtocolError):
        raise outcome
    if isinstance(outcome, Exception):
        raise ProtocolError(500, f"{failure}: {describe_exception(outcome)}") from outcome
    return outcome


def _json_bytes(head: RequestHead) -> int | None:
    """How much of the body is JSON; None for all of it."""
    text = head.headers.get(JSON_LENGTH)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 15:
        raise bad_request("Inference-Header-Content-Length is not a number of bytes")
    return int(text)
