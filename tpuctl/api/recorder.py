"""Records the calls that tpuctl makes, over gRPC and over REST, on a cassette."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import grpc
from google.protobuf.json_format import MessageToDict

from tpuctl.api.cassette import Cassette
from tpuctl.api.tpu.rest import Reply, RestApi
from tpuctl.api.tpu.tpu import TpuApi

_Interceptor: Any = grpc.UnaryUnaryClientInterceptor


def recording_api(api: TpuApi, cassette: Cassette, now: Callable[[], float]) -> TpuApi:
    """The API, whose calls are added to the cassette; `now` is in seconds since the epoch."""
    connect = api.rest

    def recorded(rest: RestApi) -> RestApi:
        return RecordedRest(rest.endpoint, rest.session, cassette, now)

    return replace(
        api,
        channel=grpc.intercept_channel(api.channel, Recorder(cassette, now)),
        rest=connect and (lambda: recorded(connect())),
    )


class Recorder(_Interceptor):
    """Adds every gRPC call with its answer or its refusal."""

    def __init__(self, cassette: Cassette, now: Callable[[], float]) -> None:
        self._cassette = cassette
        self._now = now

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        """Make the call, and add it with its answer or its refusal to the cassette."""
        called_s = self._now()
        call = continuation(details, request)
        outcome = _outcome(call)
        if outcome:
            entry = {"request": MessageToDict(request), **outcome}
            method = details.method if isinstance(details.method, str) else details.method.decode()
            self._cassette.add(f"grpc {method}", called_s, entry)
        return call


@dataclass(frozen=True, slots=True)
class RecordedRest(RestApi):
    """Adds every REST call that was answered."""

    cassette: Cassette
    now: Callable[[], float]

    def request(self, method: str, path: str, document: Mapping[str, Any] | None = None) -> Reply:
        """Call `path` as RestApi does, and add the call with its answer to the cassette."""
        called_s = self.now()
        reply = RestApi.request(self, method, path, document)
        entry = {"request": document, "status": reply.status, "response": reply.document}
        self.cassette.add(f"rest {method} {path}", called_s, entry)
        return reply


def response_document(message: Any) -> dict[str, Any]:
    """A response in JSON; of a part whose class is not installed, its type alone.

    Google's operations carry google.cloud.common.OperationMetadata, which few packages have.
    """
    try:
        document: dict[str, Any] = MessageToDict(message)
    except TypeError:
        known = type(message)()
        known.CopyFrom(message)
        parts = {field.name: value for field, value in message.ListFields() if _is_any(field)}
        for name in parts:
            known.ClearField(name)
        types = {name: {"@type": part.type_url} for name, part in parts.items()}
        document = {**MessageToDict(known), **types}
    return document


def _is_any(field: Any) -> bool:
    return field.message_type is not None and field.message_type.full_name == "google.protobuf.Any"


def _outcome(call: Any) -> dict[str, Any]:
    """The answer or the refusal; nothing of a call that was never made, as for want of a token."""
    error = call.exception()
    if error is None:
        return {"response": response_document(call.result())}
    if not isinstance(error, grpc.RpcError):
        return {}
    code: Any = error
    return {"error": {"code": code.code().value[0], "message": code.details() or ""}}
