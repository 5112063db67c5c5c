"""tpuctl's own calls, as they pass through its channel, onto a cassette."""

from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf import json_format

from tpuctl.api.cassette import Cassette

_Interceptor: Any = grpc.UnaryUnaryClientInterceptor


def recorded(channel: grpc.Channel, cassette: Cassette, now: Callable[[], float]) -> grpc.Channel:
    """The channel, whose calls are added to the cassette; `now` is in seconds since the epoch."""
    return grpc.intercept_channel(channel, Recorder(cassette, now))


class Recorder(_Interceptor):
    """Adds every call with its answer or its refusal."""

    def __init__(self, cassette: Cassette, now: Callable[[], float]) -> None:
        self._cassette = cassette
        self._now = now

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        """Let the call pass, and note how it ended."""
        called_s = self._now()
        call = continuation(details, request)
        entry = {"request": _document(request), **_outcome(call)}
        self._cassette.add(f"grpc {_text(details.method)}", called_s, entry)
        return call


def _outcome(call: Any) -> dict[str, Any]:
    error = call.exception()
    if error is None:
        return {"response": _document(call.result())}
    return {"error": {"code": error.code().value[0], "message": error.details() or ""}}


def _document(message: Any) -> Any:
    return json_format.MessageToDict(message)


def _text(method: str | bytes) -> str:
    return method if isinstance(method, str) else method.decode()
