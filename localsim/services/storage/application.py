"""Cloud Storage over HTTP: finds the method of a request and words every refusal."""

from collections.abc import Sequence

from aiohttp import web
from aiohttp.typedefs import Middleware

from localsim.rules.objects.storage_model import not_implemented
from localsim.services.net.wire_errors import final_status
from localsim.services.storage.body_process import is_taken
from localsim.services.storage.hard_deletion import hard_deletions
from localsim.services.storage.resources.reply_fields import reply_fields
from localsim.services.storage.routes import find_route
from localsim.services.storage.service import StorageService, answer_call
from localsim.services.storage.wire.inner_requests import complete_path, place_bucket, unfold_query
from localsim.services.storage.wire.json_errors import missing_parameter, refusal, request_refusal
from localsim.services.storage.wire.json_requests import (
    MAX_JSON_BYTES,
    StorageCall,
    decode_segment,
    parse_query,
)
from localsim.services.storage.wire.page_access import tell_page
from localsim.services.storage.wire.retry_tests import routes as retry_test_routes
from localsim.services.storage.xml import dispatch as storage_xml
from localsim.services.storage.xml.xml_errors import error_response as xml_error_response


def application(service: StorageService, middlewares: Sequence[Middleware] = ()) -> web.Application:
    """The service as an aiohttp application; serve it on the thread that made the store.

    Serve it with `auto_decompress=False`: what a compressed body means depends on the method.
    """
    watch = service.watch

    async def dispatch(request: web.Request) -> web.StreamResponse:
        status = 0
        try:
            response = await answer(request)
            status = response.status
        except ConnectionError:  # the client has gone, nobody reads this
            response = web.Response(status=499)
        finally:
            if watch is not None:
                watch.end(request, status)
        return response

    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            return _ending(request, await _answer(service, request))
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 (whoever asked is told)
            return _ending(request, _refusal(request, error))

    first = (place_bucket, complete_path, unfold_query, *middlewares)
    # Uploads are streamed and have no limit; this one is for JSON bodies.
    app = web.Application(middlewares=first, client_max_size=MAX_JSON_BYTES)
    app.add_routes(retry_test_routes(service.faults.retry_tests))
    app.router.add_route("*", r"/{path:[\s\S]*}", dispatch)
    _watch(app, service)
    return app


def _watch(app: web.Application, service: StorageService) -> None:
    """Have the application delete what is due, and tell pages what they may read."""
    app.cleanup_ctx.append(hard_deletions(service))
    app.on_response_prepare.append(tell_page)


def _refusal(request: web.Request, error: Exception) -> web.Response:
    """The reply with an error, in the words of the API that was called."""
    refused = refusal(error)
    refused.code = final_status(refused.code, request.headers.get("User-Agent", ""))
    return (
        xml_error_response(refused)
        if storage_xml.is_xml_request(request)
        else request_refusal(request, refused)
    )


def _ending(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """The response, the last one of a connection whose bytes another process has received."""
    if is_taken(request):
        response.force_close()
    return response


async def _answer(service: StorageService, request: web.Request) -> web.StreamResponse:
    path, _, query_text = request.raw_path.partition("?")
    if storage_xml.is_xml_request(request):
        return await storage_xml.answer(service, request)
    match = find_route(request.method, path)
    if match is None:
        raise not_implemented(f"{request.method} {path}")
    route, segments = match
    names = {name: decode_segment(text) for name, text in segments.items()}
    for name, text in names.items():
        if not text:
            raise missing_parameter(name)
    query = parse_query(query_text)
    fields = reply_fields(query.get("fields", ""), route.name)
    call = StorageCall(
        request, route.name, names, query, fields, access_of=service.objects.lists.shown
    )
    return await answer_call(service, call, route.handler)
