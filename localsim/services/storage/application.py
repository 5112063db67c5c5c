"""Cloud Storage over HTTP: finds the method of a request and words every refusal."""

from collections.abc import Sequence

from aiohttp import web
from aiohttp.typedefs import Middleware

from localsim.group_commit import GroupCommit
from localsim.rules.objects.storage_model import not_implemented
from localsim.rules.objects.store import ObjectStore
from localsim.services.net.google_hosts import JSON_API_HOST
from localsim.services.net.wire_errors import final_status
from localsim.services.storage.body_process import BodyProcess, is_taken
from localsim.services.storage.request_watch import RequestWatch
from localsim.services.storage.routes import find_route
from localsim.services.storage.service import StorageService, UploadLocks, answer_call
from localsim.services.storage.signing.signature_verifier import SignatureVerifier
from localsim.services.storage.wire.fields import reply_fields
from localsim.services.storage.wire.inner_requests import complete_path, place_bucket, unfold_query
from localsim.services.storage.wire.json_errors import missing_parameter, refusal, request_refusal
from localsim.services.storage.wire.json_requests import (
    MAX_JSON_BYTES,
    StorageCall,
    decode_segment,
    parse_query,
)
from localsim.services.storage.wire.request_faults import FaultSource
from localsim.services.storage.wire.retry_tests import routes as retry_test_routes
from localsim.services.storage.xml import dispatch as storage_xml
from localsim.services.storage.xml.xml_errors import error_response as xml_error_response


def application(
    objects: ObjectStore,
    middlewares: Sequence[Middleware] = (),
    faults: FaultSource | None = None,
    body_process: BodyProcess | None = None,
    watch: RequestWatch | None = None,
    signatures: SignatureVerifier | None = None,
) -> web.Application:
    """The service as an aiohttp application; serve it on the thread that made the store.

    Serve it with `auto_decompress=False`: what a compressed body means depends on the method.
    Without `faults` only that goes wrong which clients ask for through `/retry_test`. With a
    `body_process` large bodies leave the event loop to other requests. `watch` sees every request.
    Without `signatures` those are known that are made with the HMAC keys of `objects`.
    """
    faults = faults or FaultSource()
    database = objects.database
    commits = GroupCommit(database.batch, database.commit, blocks=lambda: database.has_changed)
    service = StorageService(
        objects,
        commits,
        UploadLocks(),
        faults,
        body_process=body_process,
        signatures=signatures or SignatureVerifier(objects.hmac_keys),
        watch=watch,
    )

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
            refused = refusal(error)
            refused.code = final_status(refused.code, request.headers.get("User-Agent", ""))
            is_xml = _is_xml(request)
            worded = xml_error_response(refused) if is_xml else request_refusal(request, refused)
            return _ending(request, worded)

    first = (place_bucket, complete_path, unfold_query, *middlewares)
    # Uploads are streamed and have no limit; this one is for JSON bodies.
    app = web.Application(middlewares=first, client_max_size=MAX_JSON_BYTES)
    app.add_routes(retry_test_routes(faults.retry_tests))
    app.router.add_route("*", r"/{path:[\s\S]*}", dispatch)
    return app


def _is_xml(request: web.Request) -> bool:
    """Whether a request is one of the XML API, which www.googleapis.com does not serve."""
    path = request.raw_path.partition("?")[0]
    return storage_xml.is_xml_path(path) and request.host.partition(":")[0] != JSON_API_HOST


def _ending(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """The response, the last one of a connection whose bytes another process has received."""
    if is_taken(request):
        response.force_close()
    return response


async def _answer(service: StorageService, request: web.Request) -> web.StreamResponse:
    path, _, query_text = request.raw_path.partition("?")
    if _is_xml(request):
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
