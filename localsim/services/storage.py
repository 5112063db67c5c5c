"""Cloud Storage's JSON API over the object store: a row per method, an honest 501 for the rest."""

import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from aiohttp import web
from aiohttp.typedefs import Middleware

from localsim.cloud.objects import ObjectStore
from localsim.cloud.objects_model import StorageError, invalid, not_implemented, writable_properties
from localsim.services.storage_buckets import (
    delete_bucket,
    get_bucket,
    insert_bucket,
    list_buckets,
)
from localsim.services.storage_commits import Commits
from localsim.services.storage_downloads import UnsatisfiableRangeError, download
from localsim.services.storage_requests import (
    MAX_JSON_BYTES,
    Call,
    decoded,
    json_body,
    list_query,
    page_token,
    query_of,
)
from localsim.services.storage_resources import listing_resource, object_resource
from localsim.services.storage_resumable import (
    cancel_resumable,
    continue_resumable,
    start_resumable,
)
from localsim.services.storage_service import Handler, Service
from localsim.services.storage_turns import Turns
from localsim.services.storage_uploads import insert_media, insert_multipart


def application(objects: ObjectStore, middlewares: Sequence[Middleware] = ()) -> web.Application:
    """The service as an aiohttp application; serve it on the thread that made the store."""
    service = Service(objects, Commits(), Turns())

    async def dispatch(request: web.Request) -> web.StreamResponse:
        try:
            return await _answer(service, request)
        except StorageError as error:
            return _error_response(error)
        except ConnectionError:  # the client has gone, nobody reads this
            return web.Response(status=499)
        except web.RequestPayloadError as error:
            return _error_response(invalid(f"Malformed request body: {error}"))
        except sqlite3.OperationalError as error:
            return _error_response(StorageError(507, "insufficientStorage", f"localsim: {error}"))

    # Uploads are streamed and have no limit; this one is for JSON bodies.
    app = web.Application(middlewares=middlewares, client_max_size=MAX_JSON_BYTES)
    app.router.add_route("*", "/{path:.*}", dispatch)
    return app


async def _answer(service: Service, request: web.Request) -> web.StreamResponse:
    path, _, query = request.raw_path.partition("?")
    for route in _ROUTES:
        match = route.pattern.fullmatch(path)
        if match is not None and route.method == request.method:
            names = {name: decoded(text) for name, text in match.groupdict().items()}
            call = Call(request, route.name, names, query_of(query))
            return await route.handler(service, call)
    raise not_implemented(f"{request.method} {path}")


def _error_response(error: StorageError) -> web.Response:
    """Google's error envelope; a 304 has no body."""
    if error.code == 304:
        return web.Response(status=304)
    detail = {"reason": error.reason, "domain": "global", "message": error.message}
    body = {"error": {"code": error.code, "message": error.message, "errors": [detail]}}
    headers = error.headers if isinstance(error, UnsatisfiableRangeError) else {}
    return web.json_response(body, status=error.code, headers=headers)


async def _get_object(service: Service, call: Call) -> web.StreamResponse:
    if call.query.get("alt") == "media":
        return await download(service, call)
    stored = service.objects.get(call.key, call.preconditions, reading=True)
    return web.json_response(object_resource(stored, call.origin))


async def _list_objects(service: Service, call: Call) -> web.StreamResponse:
    listing = service.objects.list(call.bucket, list_query(call.query))
    token = page_token(listing.next_start)
    return web.json_response(listing_resource(listing, call.origin, token))


async def _patch_object(service: Service, call: Call) -> web.StreamResponse:
    change = writable_properties(await json_body(call.request))
    stored = await service.commits.run(
        lambda: service.objects.patch(call.key, change, call.preconditions)
    )
    return web.json_response(object_resource(stored, call.origin))


async def _update_object(service: Service, call: Call) -> web.StreamResponse:
    properties = writable_properties(await json_body(call.request))
    stored = await service.commits.run(
        lambda: service.objects.update(call.key, properties, call.preconditions)
    )
    return web.json_response(object_resource(stored, call.origin))


async def _delete_object(service: Service, call: Call) -> web.StreamResponse:
    await service.commits.run(lambda: service.objects.delete(call.key, call.preconditions))
    return web.Response(status=204)


_INSERTS: dict[str, Handler] = {
    "media": insert_media,
    "multipart": insert_multipart,
    "resumable": start_resumable,
}


async def _insert_object(service: Service, call: Call) -> web.StreamResponse:
    if "X-Goog-Encryption-Algorithm" in call.request.headers:
        raise not_implemented("Customer-supplied encryption")
    insert = _INSERTS.get(call.query.get("uploadType", ""))
    if insert is None:
        raise invalid("Upload requests must include an uploadType URL parameter.")
    service.objects.buckets.get(call.bucket)
    return await insert(service, call)


@dataclass(frozen=True, slots=True)
class _Route:
    name: str
    method: str
    pattern: re.Pattern[str]
    handler: Handler


def _route(name: str, method: str, template: str, handler: Handler) -> _Route:
    return _Route(
        name, method, re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", template)), handler
    )


def _absent(name: str, method: str, template: str) -> _Route:
    async def refuse(_service: Service, _call: Call) -> web.StreamResponse:
        raise not_implemented(name)

    return _route(name, method, template, refuse)


_BUCKETS = "/storage/v1/b"
_BUCKET = f"{_BUCKETS}/{{bucket}}"
_OBJECTS = f"{_BUCKET}/o"
_OBJECT = f"{_OBJECTS}/{{object}}"
_UPLOADS = "(?:/resumable)?/upload/storage/v1/b/{bucket}/o"

_ROUTES = (
    _route("storage.buckets.list", "GET", _BUCKETS, list_buckets),
    _route("storage.buckets.insert", "POST", _BUCKETS, insert_bucket),
    _route("storage.buckets.get", "GET", _BUCKET, get_bucket),
    _route("storage.buckets.delete", "DELETE", _BUCKET, delete_bucket),
    _route("storage.objects.list", "GET", _OBJECTS, _list_objects),
    _route("storage.objects.get", "GET", _OBJECT, _get_object),
    _route("storage.objects.get", "GET", f"/download{_OBJECT}", download),
    _route("storage.objects.patch", "PATCH", _OBJECT, _patch_object),
    _route("storage.objects.update", "PUT", _OBJECT, _update_object),
    _route("storage.objects.delete", "DELETE", _OBJECT, _delete_object),
    _route("storage.objects.insert", "POST", _UPLOADS, _insert_object),
    _route("storage.objects.insert", "PUT", _UPLOADS, continue_resumable),
    _route("storage.objects.insert", "DELETE", _UPLOADS, cancel_resumable),
    _absent("storage.buckets.patch", "PATCH", _BUCKET),
    _absent("storage.buckets.update", "PUT", _BUCKET),
    _absent("storage.objects.compose", "POST", f"{_OBJECT}/compose"),
    _absent(
        "storage.objects.rewrite", "POST", f"{_OBJECT}/rewriteTo/b/{{to_bucket}}/o/{{to_object}}"
    ),
    _absent("storage.objects.copy", "POST", f"{_OBJECT}/copyTo/b/{{to_bucket}}/o/{{to_object}}"),
    _absent("storage.objects.move", "POST", f"{_OBJECT}/moveTo/o/{{to_object}}"),
    _absent("storage.objects.restore", "POST", f"{_OBJECT}/restore"),
    _absent("storage.batch", "POST", "/batch/storage/v1"),
)
