"""The metadata server of a worker, or of the machine of `local shell`, at its own address."""

import asyncio
import hashlib
import json
import math
import socket
from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

from aiohttp import web
from aiohttp.typedefs import Handler

from localsim.service_ports import HTTP_LOG
from localsim.services.net.answer_date import dated
from localsim.services.net.request_guard import guard
from localsim.services.worker import guest_attribute_routes
from localsim.workers.metadata_tree import (
    ArrayDirectory,
    RecordValue,
    SecretValue,
    Tree,
    VerbatimDirectory,
)
from localsim.workers.worker import Worker

ROOT = "computeMetadata"
VERSION = "v1"
GOOGLE = {"Metadata-Flavor": "Google", "Server": "Metadata Server for VM"}
MAX_WAIT_S = 3600.0
CLOSING_S = 0.01
"""For those who wait for a change; aiohttp takes 0 for no limit."""
_NAMES = ("metadata.google.internal", "metadata", "169.254.169.254")
Answer: TypeAlias = "Tree | str | tuple[str, ...] | RecordValue | SecretValue"


class Machine(Protocol):
    """What a metadata server tells about."""

    def metadata(self) -> Tree:
        """Return what is below computeMetadata/v1 now."""

    async def metadata_change(self) -> None:
        """Return at its next change."""

    async def has_network(self) -> None:
        """Return when the machine has a network."""


class MetadataServer:
    """The metadata server of a machine."""

    def __init__(self, runner: web.AppRunner) -> None:
        self._runner = runner

    async def close(self) -> None:
        """Break every connection and stop."""
        await self._runner.cleanup()


async def open_metadata(worker: Worker, listening: socket.socket) -> MetadataServer:
    """Serve a worker's metadata on a listening socket; it can write its guest attributes."""
    app = _application(worker, listening)
    app.middlewares.insert(0, dated(worker.now))
    guest_attribute_routes.add_routes(app, worker)
    return await _serve(app, listening)


async def open_read_only_metadata(machine: Machine, listening: socket.socket) -> MetadataServer:
    """Serve a machine's metadata on a listening socket."""
    return await _serve(_application(machine, listening), listening)


async def _serve(app: web.Application, listening: socket.socket) -> MetadataServer:
    runner = web.AppRunner(app, access_log=None, logger=HTTP_LOG, shutdown_timeout=CLOSING_S)
    await runner.setup()
    await web.SockSite(runner, listening).start()
    return MetadataServer(runner)


def _application(machine: Machine, listening: socket.socket) -> web.Application:
    host, port = listening.getsockname()
    own = {f"{name}:{port}" for name in (host, "localhost", *_NAMES)}
    hosts = frozenset({*own, *_NAMES})
    application = web.Application(
        middlewares=[_reached(machine), _google, guard(hosts=lambda: hosts), _flavoured],
        client_max_size=guest_attribute_routes.MAX_VALUE_BYTES,
    )
    application.router.add_get("/", _root)
    application.router.add_get(f"/{ROOT}/", _versions)
    application.router.add_get(f"/{ROOT}/{VERSION}{{path:(/.*)?}}", _view(machine))
    return application


def _reached(machine: Machine) -> Any:
    """A middleware that answers nothing while the machine's network is cut off."""

    @web.middleware
    async def wait(request: web.Request, handler: Handler) -> web.StreamResponse:
        await machine.has_network()
        return await handler(request)

    return wait


@web.middleware
async def _google(request: web.Request, handler: Handler) -> web.StreamResponse:
    """A middleware that adds the header by which Google's libraries know the server."""
    try:
        response = await handler(request)
    except web.HTTPException as refusal:
        refusal.headers.update(GOOGLE)
        raise
    response.headers.update(GOOGLE)
    return response


@web.middleware
async def _flavoured(request: web.Request, handler: Handler) -> web.StreamResponse:
    """A middleware that refuses requests without Metadata-Flavor, or through a proxy."""
    if "X-Forwarded-For" in request.headers:
        raise web.HTTPForbidden(text="Request with X-Forwarded-For is refused\n")
    if request.path != "/" and request.headers.get("Metadata-Flavor") != "Google":
        raise web.HTTPForbidden(text="Missing Metadata-Flavor:Google header.\n")
    return await handler(request)


async def _root(_: web.Request) -> web.Response:
    return web.Response(text=f"{ROOT}/\n")


async def _versions(_: web.Request) -> web.Response:
    return web.Response(text=f"{VERSION}/\n")


def _view(machine: Machine) -> Handler:
    """A handler that answers with a value, a listing, or the tree below a directory.

    A client may ask to wait for a change of it.
    """

    async def get(request: web.Request) -> web.Response:
        response = _answer(machine, request)
        if request.query.get("wait_for_change") != "true":
            return response
        seen = request.query.get("last_etag", response.headers["ETag"])
        try:
            async with asyncio.timeout(_wait_s(request)):
                while (response := _answer(machine, request)).headers["ETag"] == seen:
                    await machine.metadata_change()
        except TimeoutError:
            return response
        return response

    return get


def _answer(machine: Machine, request: web.Request) -> web.Response:
    path = request.match_info["path"]
    entry = _find(machine.metadata(), [part for part in path.split("/") if part])
    if isinstance(entry, Mapping) and not path.endswith("/"):
        raise web.HTTPMovedPermanently(f"{request.path}/")
    text, kind = _render(entry, request.query)
    etag = hashlib.sha256(text.encode()).hexdigest()[:16]
    # As bytes: with a charset behind its type, oauth2client would not take JSON for JSON.
    return web.Response(body=text.encode(), content_type=kind, headers={"ETag": etag})


def _wait_s(request: web.Request) -> float:
    try:
        wait_s = float(request.query.get("timeout_sec", MAX_WAIT_S))
    except ValueError:
        wait_s = math.nan
    if math.isnan(wait_s):
        raise web.HTTPBadRequest(text="timeout_sec is not a number\n")
    return min(wait_s, MAX_WAIT_S)


def _find(tree: Tree, parts: list[str]) -> Answer:
    """The entry at a path of the tree; raises HTTPNotFound."""
    entry: Answer = tree
    for part in parts:
        if not isinstance(entry, Mapping) or part not in entry:
            raise web.HTTPNotFound(text="Not Found\n")
        entry = entry[part]
    return entry


def _render(found: Answer, query: Mapping[str, str]) -> tuple[str, str]:
    """The text of a reply and its content type."""
    if isinstance(found, SecretValue):
        return json.dumps(found.content), "application/json"
    is_recursive = isinstance(found, Mapping) and query.get("recursive", "").lower() == "true"
    kind = query.get("alt", "json" if is_recursive else "text")
    if kind == "json":
        content = _recursive(found) if is_recursive else _listing(found)
        return json.dumps(content), "application/json"
    lines = _flat(found, "") if is_recursive else _lines(found)
    return "\n".join(lines), "application/text"


def _listing(found: Answer) -> str | list[str] | dict[str, str]:
    """The entries of a directory as JSON, without what is below them."""
    if isinstance(found, str):
        return found
    return dict(found.content) if isinstance(found, RecordValue) else _lines(found)


def _lines(found: Answer) -> list[str]:
    if isinstance(found, Mapping):
        return [f"{key}/" if isinstance(value, Mapping) else key for key, value in found.items()]
    if isinstance(found, RecordValue):
        return [f"{key} {value}" for key, value in found.content.items()]
    if isinstance(found, SecretValue):
        return []
    return [found] if isinstance(found, str) else list(found)


def _recursive(found: Answer) -> object:
    """A tree as JSON, with names in camel case."""
    if isinstance(found, RecordValue):
        return dict(found.content)
    if not isinstance(found, Mapping):
        return list(found) if isinstance(found, tuple) else found
    shown = {key: value for key, value in found.items() if not isinstance(value, SecretValue)}
    if isinstance(found, ArrayDirectory):
        return [_recursive(value) for value in shown.values()]
    name = str if isinstance(found, VerbatimDirectory) else _camel
    return {name(key): _recursive(value) for key, value in shown.items()}


def _flat(found: Answer, prefix: str) -> list[str]:
    if isinstance(found, Mapping):
        below = (_flat(value, f"{prefix}/{key}".lstrip("/")) for key, value in found.items())
        return [line for lines in below for line in lines]
    separator = "/" if isinstance(found, RecordValue) else " "
    return [f"{prefix}{separator}{line}" for line in _lines(found)]


def _camel(name: str) -> str:
    first, *rest = name.split("-")
    return first + "".join(word.capitalize() for word in rest) if "@" not in name else name
