"""Cloud TPU over HTTP and JSON, by the path templates of the method table."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from localsim.cloud.model.cloud_errors import CloudError, Code, precondition
from localsim.services.net.request_guard import require_json
from localsim.services.net.wire_errors import (
    FieldViolation,
    MalformedRequestError,
    http_error,
    refusal,
)
from localsim.services.rest import discovery
from localsim.services.rest.json_messages import parse_json
from localsim.services.rest.rest_binding import request_message
from localsim.services.rest.rest_reply import (
    ReplyFormat,
    json_reply,
    message_reply,
    reply_format,
    reply_mask,
)
from localsim.services.tpu.calls import CloudPort, ConnectionDroppedError, answer_call
from localsim.services.tpu.rest_messages import REST_MESSAGES
from localsim.services.tpu.tpu_methods import LOCATIONS, Method, rest_methods

MOST_BYTES = 4 * 1024 * 1024
TEMPLATE = re.compile(r"(.*)\{([\w.]+)=([^}]*)\}(.*)")


@dataclass(frozen=True, slots=True)
class RestRoute:
    """One method as HTTP reaches it: `field` is filled by the path, `body` by the content."""

    verb: str
    path: re.Pattern[str]
    field: str
    body: str
    method: Method


def application(cloud_port: CloudPort, middlewares: Sequence[Any] = ()) -> web.Application:
    """The REST API under `/v2/` and `/v2alpha1/`, and its discovery document."""
    served = routes()

    async def answer(http: web.Request) -> web.StreamResponse:
        try:
            return await _called(cloud_port, served, http)
        except ConnectionDroppedError:
            return _dropped(http)
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


def routes() -> tuple[RestRoute, ...]:
    """The routes of every method of every version."""
    known = [
        _route(version, method) for version in REST_MESSAGES for method in rest_methods(version)
    ]
    return (*known, *(_route(LEGACY_VERSION, method) for method in legacy_methods()))


def find_route(served: Iterable[RestRoute], verb: str, path: str) -> tuple[RestRoute, str]:
    """The route of a raw path, and the resource named in it; raises CloudError."""
    for route in served:
        match = route.path.fullmatch(path)
        if match and route.verb == verb:
            return route, _decoded(match.group(1))
    raise CloudError(Code.NOT_FOUND, f"No method answers {verb} {path}")


async def _called(
    cloud_port: CloudPort, served: Iterable[RestRoute], http: web.Request
) -> web.Response:
    path = http.raw_path.partition("?")[0]
    form = reply_format(http.query)
    if (http.method, path) == ("GET", discovery.PATH):
        return json_reply(
            discovery.document(http.query.get("version", ""), f"{http.scheme}://{http.host}/"), form
        )
    refuse_legacy_creation(http.method, path)
    route, value = find_route(served, http.method, path)
    mask = reply_mask(form, route.method.response)
    body = await http.read() if route.body else b""

    def request() -> Any:
        return request_message(
            route.method.request,
            (route.field, value),
            http.query.items(),
            (route.body, parse_json(body)),
        )

    reply = route.method.response.FromString(await answer_call(cloud_port, route.method, request))
    return message_reply(reply, form, mask, REST_MESSAGES[route.method.version].pool)


def _decoded(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        sentence = "The path of the request is not UTF-8."
        raise MalformedRequestError([FieldViolation(sentence)]) from None


def _route(version: str, method: Method) -> RestRoute:
    verb, template, *body = method.http.split()
    match = TEMPLATE.fullmatch(template)
    if match is None:
        raise ValueError(f"{method.name} has no usable path template: {template}")
    before, field, name, after = match.groups()
    captured = re.escape(name).replace(r"\*", "[^/:]+")
    pattern = rf"/{version}/{re.escape(before)}({captured}){re.escape(after)}"
    return RestRoute(verb, re.compile(pattern), field, "".join(body), method)


def _refused(http: web.Request, error: CloudError) -> web.Response:
    status, document = http_error(error)
    return json_reply(
        document, ReplyFormat(pretty=http.query.get("prettyPrint") != "false"), status
    )


def _dropped(http: web.Request) -> web.Response:
    if http.transport is not None:
        http.transport.abort()
    return web.Response(status=499)


LEGACY_VERSION = "v1"
_LEGACY_NODES = re.compile(rf"/{LEGACY_VERSION}/projects/[^/]+/locations/[^/]+/nodes")


def legacy_methods() -> tuple[Method, ...]:
    """The methods of v1 that are left: the zones, for gcloud's `tpus locations`."""
    return tuple(method for method in rest_methods("v2") if method.service == LOCATIONS)


def refuse_legacy_creation(verb: str, path: str) -> None:
    """Raise CloudError for the creation of a v1 node, which Google denies to everybody."""
    if verb == "POST" and _LEGACY_NODES.fullmatch(path):
        raise precondition("Creation of legacy TPU nodes is denied; create a TPU VM instead.")
