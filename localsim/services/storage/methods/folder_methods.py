"""The folder methods of the JSON API."""

from aiohttp import web

from localsim.rules.objects.folders.folder_records import FolderQuery
from localsim.rules.objects.storage_model import Preconditions, StorageError
from localsim.services.storage.resources.folder_resources import (
    folder_list_resource,
    folder_resource,
)
from localsim.services.storage.resources.object_resources import Resource, reply
from localsim.services.storage.resources.operation_resources import operation_resource
from localsim.services.storage.service import StorageService
from localsim.services.storage.wire import json_requests as requests
from localsim.services.storage.wire.json_errors import ParameterError, missing_parameter
from localsim.services.storage.wire.json_requests import StorageCall


async def insert_folder(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Create a folder, with `recursive` those above it too."""
    name = folder_name(await requests.read_json_body(call.request))
    recursive = requests.flag_parameter(call.query, "recursive")
    folder = await service.commit(
        service.objects.folders.create, call.bucket, name, recursive=recursive
    )
    return reply(call, folder_resource(folder))


async def get_folder(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Describe a folder."""
    folder = service.objects.folders.get(call.bucket, call.names["folder"], call.preconditions)
    return reply(call, folder_resource(folder))


async def list_folders(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """One page of a bucket's folders."""
    delimiter = call.query.get("delimiter", "")
    if delimiter not in ("", "/"):
        raise ParameterError("delimiter", f"Invalid value for delimiter: {delimiter!r}")
    query = FolderQuery(
        prefix=call.query.get("prefix", ""),
        start=max(call.query.get("startOffset", ""), requests.page_start(call.query)[0]),
        end=call.query.get("endOffset", ""),
        limit=requests.page_limit(call.query, "pageSize"),
        is_one_level=bool(delimiter),
    )
    page = service.objects.folders.list(call.bucket, query)
    return reply(call, folder_list_resource(page, "storage#folders", folder_resource))


async def delete_folder(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Delete an empty folder."""
    delete = service.objects.folders.delete
    await service.commit(delete, call.bucket, call.names["folder"], call.preconditions)
    return web.Response(status=204)


async def delete_folder_recursive(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Delete a folder and all that is in it; the operation is done when it is answered."""
    objects = service.objects
    operation = await service.commit(
        objects.folders.delete_recursive,
        call.bucket,
        call.names["folder"],
        call.preconditions,
        objects.delete,
    )
    return reply(call, operation_resource(operation))


async def rename_folder(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Rename a folder with all that is in it; the operation is done when it is answered."""
    source: Preconditions = call.source_preconditions
    operation = await service.commit(
        service.objects.folders.rename,
        call.bucket,
        call.names["folder"],
        call.names["to_folder"],
        source,
    )
    return reply(call, operation_resource(operation))


def folder_name(resource: Resource) -> str:
    """The name in the body of an insert; raises StorageError 400."""
    name = resource.get("name")
    if not isinstance(name, str):
        raise missing_parameter("name")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise StorageError(400, "invalid", "Folder names must be valid UTF-8.") from None
    return name
