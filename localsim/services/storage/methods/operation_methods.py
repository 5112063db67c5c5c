"""The methods of a bucket's long-running operations, which are done when they are answered."""

from aiohttp import web

from localsim.services.storage.resources.object_resources import Resource, reply
from localsim.services.storage.resources.operation_resources import operation_resource
from localsim.services.storage.service import StorageService
from localsim.services.storage.wire import json_requests as requests
from localsim.services.storage.wire.json_requests import StorageCall


async def get_operation(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Describe an operation."""
    service.buckets.get(call.bucket)
    operation = service.objects.operations.get(call.bucket, call.names["operation"])
    return reply(call, operation_resource(operation))


async def list_operations(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """One page of a bucket's operations, the oldest first."""
    service.buckets.get(call.bucket)
    operations, ended_with = service.objects.operations.list(
        call.bucket,
        after=requests.page_start(call.query)[1],
        limit=requests.page_limit(call.query, "pageSize"),
    )
    page: Resource = {"kind": "storage#operations"}
    if ended_with:
        page["nextPageToken"] = requests.page_token("", ended_with)
    if operations:
        page["operations"] = [operation_resource(operation) for operation in operations]
    return reply(call, page)


async def cancel_operation(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Take the request, which changes nothing: an operation is done when it is answered."""
    service.buckets.get(call.bucket)
    service.objects.operations.get(call.bucket, call.names["operation"])
    return web.Response(status=204)
