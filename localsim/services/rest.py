"""Cloud TPU over HTTP and JSON: the method table again, by its path templates."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from aiohttp import web
from google.protobuf import json_format

from localsim.cloud.errors import CloudError, Code
from localsim.services.rest_binding import parsed_json, request_message
from localsim.services.tpu_methods import Method, tpu_v2_methods
from localsim.services.wire_errors import http_error
from localsim.services.world import World

MOST_BYTES = 4 * 1024 * 1024
_TEMPLATE = re.compile(r"(.*)\{([\w.]+)=([^}]*)\}(.*)")


@dataclass(frozen=True, slots=True)
class Route:
    """One method as HTTP reaches it: `field` is filled by the path, `body` by the content."""

    verb: str
    path: re.Pattern[str]
    field: str
    body: str
    method: Method


def application(world: World, middlewares: Sequence[Any] = ()) -> web.Application:
    """The REST view of the method table, under `/v2/`."""
    routes = [_route("v2", method) for method in tpu_v2_methods()]

    async def answer(http: web.Request) -> web.Response:
        try:
            return web.json_response(await _called(world, routes, http), dumps=_compact)
        except CloudError as error:
            status, document = http_error(error)
            return web.json_response(document, status=status)

    app = web.Application(middlewares=middlewares, client_max_size=MOST_BYTES)
    app.router.add_route("*", "/{path:.*}", answer)
    return app


async def _called(world: World, routes: Iterable[Route], http: web.Request) -> Any:
    route, value = _find(routes, http.method, http.rel_url.raw_path)
    content = parsed_json(await http.read()) if route.body else {}
    request = request_message(
        route.method.request, (route.field, value), http.query.items(), (route.body, content)
    )
    reply = await world.run(lambda cloud: route.method.run(cloud, request))
    return json_format.MessageToDict(route.method.response.FromString(reply))


def _find(routes: Iterable[Route], verb: str, raw_path: str) -> tuple[Route, str]:
    for route in routes:
        match = route.path.fullmatch(raw_path)
        if match and route.verb == verb:
            return route, unquote(match.group(1))
    raise CloudError(Code.NOT_FOUND, f"No method answers {verb} {raw_path}")


def _route(version: str, method: Method) -> Route:
    verb, template, *body = method.http.split()
    match = _TEMPLATE.fullmatch(template)
    if match is None:
        raise ValueError(f"{method.name} has no usable path template: {template}")
    before, field, name, after = match.groups()
    captured = re.escape(name).replace(r"\*", "[^/:]+")
    pattern = rf"/{version}/{re.escape(before)}({captured}){re.escape(after)}"
    return Route(verb, re.compile(pattern), field, "".join(body), method)


def _compact(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"))
