"""The object methods of the JSON API, but for those that make one object of others."""

from typing import Any

from aiohttp import web

from localsim.rules.objects.buckets.policies import permissions_of_caller
from localsim.rules.objects.properties import PREDEFINED_ACL, writable_properties
from localsim.rules.objects.storage_model import not_implemented
from localsim.services.auth.iam import granted_permissions
from localsim.services.storage.methods.downloads import download_object
from localsim.services.storage.methods.resumable import continue_resumable, start_resumable
from localsim.services.storage.methods.single_uploads import (
    check_length,
    insert_media,
    insert_multipart,
)
from localsim.services.storage.service import Handler, StorageService
from localsim.services.storage.wire.access_resources import asked_access
from localsim.services.storage.wire.json_errors import ParameterError, missing_parameter
from localsim.services.storage.wire.json_requests import (
    ACCOUNT,
    StorageCall,
    list_query,
    page_token,
    read_json_body,
)
from localsim.services.storage.wire.resources import (
    Resource,
    listing_reply,
    object_reply,
    reply,
)


async def get_object(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Describe an object, or with alt=media send its bytes."""
    if call.query.get("alt") == "media":
        return await download_object(service, call)
    stored = service.objects.get(call.key, call.preconditions, reading=True)
    return object_reply(call, await service.md5s.shown(service.objects, stored))


async def list_objects(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """One page of a bucket's objects."""
    listing = service.objects.list(call.bucket, list_query(call.query))
    start = listing.next_start
    token = None if start is None else page_token(start, listing.next_generation)
    return listing_reply(call, listing, token)


async def patch_object(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Change some fields of the metadata."""
    change = await _changes(call)
    stored = await service.commit(service.objects.patch, call.key, change, call.preconditions)
    return object_reply(call, stored)


async def update_object(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Replace the metadata as a whole."""
    properties = await _changes(call)
    stored = await service.commit(service.objects.update, call.key, properties, call.preconditions)
    return object_reply(call, stored)


async def _changes(call: StorageCall) -> dict[str, Any]:
    """The metadata and the access that a patch or an update asks for."""
    resource = await read_json_body(call.request)
    name = asked_access(call, resource, permission="storage.objects.setIamPolicy")
    return writable_properties(resource) | {
        field: name[field] for field in (PREDEFINED_ACL,) if field in name
    }


async def delete_object(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Delete an object, or one generation of it for good."""
    await service.commit(service.objects.delete, call.key, call.preconditions)
    return web.Response(status=204)


async def test_iam_permissions(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """The asked permissions that the caller has on an object; one without account has all."""
    service.objects.get(call.key)
    asked = permissions_of_caller(call.request.query.getall("permissions", []))
    held = granted_permissions(call.request.get(ACCOUNT), asked)
    resource: Resource = {"kind": "storage#testIamPermissionsResponse"}
    return reply(call, resource | ({"permissions": held} if held else {}))


_INSERTS: dict[str, Handler] = {
    "media": insert_media,
    "multipart": insert_multipart,
    "resumable": start_resumable,
}


async def insert_object(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Begin an upload, do it at once, or go on with one: some clients POST the chunks too."""
    check_length(call.request.headers)
    if "upload_id" in call.query:
        return await continue_resumable(service, call)
    if "X-Goog-Encryption-Algorithm" in call.request.headers:
        raise not_implemented("Customer-supplied encryption")
    kind = call.query.get("uploadType")
    if kind is None:
        raise missing_parameter("uploadType")
    insert = _INSERTS.get(kind)
    if insert is None:
        raise ParameterError("uploadType", f"Invalid value for uploadType: {kind!r}")
    service.buckets.get(call.bucket)
    return await insert(service, call)
