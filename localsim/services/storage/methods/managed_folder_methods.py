"""The managed folder methods of the JSON API."""

from aiohttp import web

from localsim.rules.objects.buckets.policies import permissions_of_caller
from localsim.rules.objects.storage_model import invalid
from localsim.services.auth.iam import granted_permissions
from localsim.services.storage.methods.folder_methods import folder_name
from localsim.services.storage.resources.folder_resources import (
    folder_list_resource,
    managed_folder_resource,
)
from localsim.services.storage.resources.object_resources import Resource, reply
from localsim.services.storage.service import StorageService
from localsim.services.storage.wire import json_requests as requests
from localsim.services.storage.wire.json_requests import ACCOUNT, StorageCall


async def insert_managed_folder(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Create a managed folder."""
    name = folder_name(await requests.read_json_body(call.request))
    create = service.objects.managed_folders.create
    return reply(call, managed_folder_resource(await service.commit(create, call.bucket, name)))


async def get_managed_folder(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Describe a managed folder."""
    get = service.objects.managed_folders.get
    folder = get(call.bucket, call.names["folder"], call.preconditions)
    return reply(call, managed_folder_resource(folder))


async def list_managed_folders(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """One page of a bucket's managed folders."""
    page = service.objects.managed_folders.list(
        call.bucket,
        prefix=call.query.get("prefix", ""),
        start=requests.page_start(call.query)[0],
        limit=requests.page_limit(call.query, "pageSize"),
    )
    kind = "storage#managedFolders"
    return reply(call, folder_list_resource(page, kind, managed_folder_resource))


async def delete_managed_folder(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Delete a managed folder; with `allowNonEmpty` also one that applies to something."""
    await service.commit(
        service.objects.managed_folders.delete,
        call.bucket,
        call.names["folder"],
        call.preconditions,
        allow_non_empty=requests.flag_parameter(call.query, "allowNonEmpty"),
    )
    return web.Response(status=204)


async def get_managed_folder_policy(
    service: StorageService, call: StorageCall
) -> web.StreamResponse:
    """The managed folder's policy; it adds to what bucket and project grant."""
    version = requests.integer_parameter(call.query, "optionsRequestedPolicyVersion") or 1
    get = service.objects.managed_folders.get_iam_policy
    return reply(call, get(call.bucket, call.names["folder"], version))


async def set_managed_folder_policy(
    service: StorageService, call: StorageCall
) -> web.StreamResponse:
    """Replace the policy; 412 when its etag is given and is not the present one."""
    given = await requests.read_json_body(call.request)
    replace = service.objects.managed_folders.set_iam_policy
    policy = await service.commit(replace, call.bucket, call.names["folder"], given)
    return reply(call, policy)


async def test_managed_folder_permissions(
    service: StorageService, call: StorageCall
) -> web.StreamResponse:
    """The asked permissions that the caller has; a caller without account has all."""
    service.objects.managed_folders.get(call.bucket, call.names["folder"])
    asked = permissions_of_caller(call.request.query.getall("permissions", []))
    if any(permission.startswith("storage.buckets.") for permission in asked):
        raise invalid("Invalid argument.")
    held = granted_permissions(call.request.get(ACCOUNT), asked)
    resource: Resource = {"kind": "storage#testIamPermissionsResponse"}
    return reply(call, resource | ({"permissions": held} if held else {}))
