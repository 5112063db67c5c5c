"""Cloud TPU over HTTP and JSON, by the path templates of the method table."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import unquote

from aiohttp import web
from google.longrunning.operations_pb2 import ListOperationsResponse, Operation
from google.protobuf import json_format

from localsim.rules.model.cloud_errors import CloudError, Code, precondition, unimplemented
from localsim.services.net.request_guard import require_json
from localsim.services.net.wire_errors import (
    FieldViolation,
    MalformedRequestError,
    final_status,
    http_error,
    refusal,
)
from localsim.services.rest import discovery, legacy
from localsim.services.rest.json_messages import parse_json
from localsim.services.rest.rest_binding import request_message
from localsim.services.rest.rest_fields import apply_mask, parse_mask
from localsim.services.tpu.calls import CloudPort, ConnectionDroppedError, answer_call
from localsim.services.tpu.rest_messages import REST_MESSAGES
from localsim.services.tpu.tpu_methods import Method, rest_methods

MOST_BYTES = 4 * 1024 * 1024
_ABSENT_FORMS = frozenset({"media", "proto"})
_SAFE = {"X-Content-Type-Options": "nosniff"}
TEMPLATE = re.compile(r"(.*)\{([\w.]+)=([^}]*)\}(.*)")


@dataclass(frozen=True, slots=True)
class RestRoute:
    """One method as HTTP reaches it: `field` is filled by the path, `body` by the content.

    `path` is a regular expression for `compiled_path`.
    """

    verb: str
    path: str
    field: str
    body: str
    method: Method
    is_legacy: bool = False


def application(cloud_port: CloudPort, middlewares: Sequence[Any] = ()) -> web.Application:
    """The REST API under `/v2/` and `/v2alpha1/`, and its discovery document."""

    async def answer(http: web.Request) -> web.StreamResponse:
        try:
            return await _called(cloud_port, http)
        except ConnectionDroppedError:
            if http.transport is not None:
                http.transport.abort()
            return web.Response(status=499)
        except ConnectionError:  # the client has gone, nobody reads this
            return web.Response(status=499)
        except web.RequestPayloadError:
            return _refused(
                http, MalformedRequestError([FieldViolation("The body cannot be decoded.")])
            )
        except web.HTTPRequestEntityTooLarge:
            sentence = f"Request payload size exceeds the limit: {MOST_BYTES} bytes."
            return _refused(http, MalformedRequestError([], sentence, http_status=413))
        except Exception as error:  # noqa: BLE001 (the last resort of a call, shown on stderr)
            return _refused(http, refusal(error))

    app = web.Application(middlewares=[*middlewares, require_json], client_max_size=MOST_BYTES)
    app.router.add_route("*", r"/{path:[\s\S]*}", answer)
    return app


@cache
def compiled_path(path: str) -> re.Pattern[str]:
    """The pattern of a path, compiled when the first request may be about it.

    To compile all of them would delay every start of a simulator.
    """
    return re.compile(path)


@cache
def routes() -> tuple[RestRoute, ...]:
    """The routes of every method of every version, made for the first request."""
    known = [
        _route(version, method) for version in REST_MESSAGES for method in rest_methods(version)
    ]
    left = [
        _route(legacy.VERSION, method) for method in rest_methods("v2") if legacy.is_served(method)
    ]
    return (*known, *left)


def find_route(verb: str, path: str) -> tuple[RestRoute, str]:
    """The route of a raw path, and the resource named in it; raises CloudError."""
    for route in routes():
        match = compiled_path(route.path).fullmatch(path) if route.verb == verb else None
        if match:
            name = _decoded(match.group(1))
            return route, legacy.current_name(name) if route.is_legacy else name
    if legacy.ABSENT.fullmatch(path):
        raise unimplemented(f"{verb} {path}")
    raise CloudError(Code.NOT_FOUND, f"No method answers {verb} {path}")


async def _called(cloud_port: CloudPort, http: web.Request) -> web.Response:
    path = http.raw_path.partition("?")[0]
    form = _reply_format(http.query)
    if (http.method, path) == ("GET", discovery.PATH):
        return _json_reply(
            discovery.document(http.query.get("version", ""), f"{http.scheme}://{http.host}/"), form
        )
    _refuse_legacy_creation(http.method, path)
    route, value = find_route(http.method, path)
    mask = parse_mask(form.fields, route.method.response.DESCRIPTOR) if form.fields else {}
    body = await http.read() if route.body else b""

    def request() -> Any:
        return request_message(
            route.method.request,
            (route.field, value),
            http.query.items(),
            (route.body, parse_json(body)),
        )

    reply = route.method.response.FromString(await answer_call(cloud_port, route.method, request))
    document = json_format.MessageToDict(
        reply,
        use_integers_for_enums=form.enums_as_numbers,
        descriptor_pool=REST_MESSAGES[route.method.version].pool,
    )
    if isinstance(reply, Operation):
        _show_unfinished([document])
    elif isinstance(reply, ListOperationsResponse):
        _show_unfinished(document.get("operations", ()))
    masked = apply_mask(document, mask)
    return _json_reply(legacy.shown(route.method, masked) if route.is_legacy else masked, form)


def _show_unfinished(operations: Iterable[dict[str, Any]]) -> None:
    """Say `"done": false` of operations that run, as Google does though it is the default.

    Source: "For reasons unclear, operations emit done: false and cancelRequested: false"
    (k8s-config-connector, tests/e2e/normalize.go, on recordings of Google's answers).
    """
    for operation in operations:
        operation.setdefault("done", False)


@dataclass(frozen=True, slots=True)
class _ReplyFormat:
    """The form of a reply; indented by two and with enums by name unless asked otherwise."""

    pretty: bool = True
    enums_as_numbers: bool = False
    fields: str = ""


def _reply_format(query: Mapping[str, str]) -> _ReplyFormat:
    """The form that the parameters of a query ask for; raises CloudError."""
    alt, *options = query.get("$alt", query.get("alt", "json")).split(";")
    if alt in _ABSENT_FORMS:
        raise unimplemented(f"alt={alt}")
    if alt != "json":
        raise MalformedRequestError(
            [FieldViolation(f"Invalid value at 'alt' (alt), \"{alt}\"", "alt")]
        )
    return _ReplyFormat(
        pretty=query.get("prettyPrint", query.get("$prettyPrint", "true")).lower() != "false",
        enums_as_numbers="enum-encoding=int" in options,
        fields=query.get("fields", query.get("$fields", "")),
    )


def _json_reply(document: Any, form: _ReplyFormat, status: int = 200) -> web.Response:
    """A JSON document in the form of Google's front end."""
    separators = None if form.pretty else (",", ":")
    text = json.dumps(
        document, indent=2 if form.pretty else None, separators=separators, ensure_ascii=False
    )
    return web.Response(
        status=status,
        body=text.encode(errors="replace") + b"\n" * form.pretty,
        content_type="application/json",
        charset="UTF-8",
        headers=_SAFE,
    )


def _decoded(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        sentence = "The path of the request is not UTF-8."
        raise MalformedRequestError([FieldViolation(sentence)]) from None


def _route(version: str, method: Method) -> RestRoute:
    is_legacy = version == legacy.VERSION
    verb, template, *body = (legacy.template(method.http) if is_legacy else method.http).split()
    match = TEMPLATE.fullmatch(template)
    if match is None:
        raise ValueError(f"{method.name} has no usable path template: {template}")
    before, field, name, after = match.groups()
    captured = re.escape(name).replace(r"\*", "[^/:]+")
    pattern = rf"/{version}/{re.escape(before)}({captured}){re.escape(after)}"
    return RestRoute(verb, pattern, field, "".join(body), method, is_legacy)


def _refused(http: web.Request, error: CloudError) -> web.Response:
    status, document = http_error(error)
    form = _ReplyFormat(pretty=http.query.get("prettyPrint") != "false")
    return _json_reply(document, form, final_status(status, http.headers.get("User-Agent", "")))


def _refuse_legacy_creation(verb: str, path: str) -> None:
    """Raise CloudError for the creation of a v1 node, which Google denies to everybody."""
    if verb == "POST" and legacy.CREATION.fullmatch(path):
        raise precondition("Creation of legacy TPU nodes is denied; create a TPU VM instead.")
