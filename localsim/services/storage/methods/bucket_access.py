"""Who may use a bucket, as it is stored, and what kind of bucket it is."""

from aiohttp import web

from localsim.cloud.objects.buckets.policies import permissions_of_caller
from localsim.services.auth.iam import granted_permissions
from localsim.services.storage.service import StorageService
from localsim.services.storage.wire.json_requests import (
    ACCOUNT,
    StorageCall,
    integer_parameter,
    read_json_body,
)
from localsim.services.storage.wire.resources import Resource, location_of, location_type, reply


async def get_iam_policy(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """The bucket's policy; it is stored, and grants nobody anything."""
    version = integer_parameter(call.query, "optionsRequestedPolicyVersion") or 1
    return reply(call, service.objects.buckets.get_iam_policy(call.bucket, version))


async def set_iam_policy(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Replace the bucket's policy; 412 when its etag is given and is not the present one."""
    given = await read_json_body(call.request)
    policy = await service.commits.run(
        lambda: service.objects.buckets.set_iam_policy(call.bucket, given)
    )
    return reply(call, policy)


async def test_iam_permissions(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Which of the permissions the caller has: all of them where nobody is asked who calls."""
    service.objects.buckets.get(call.bucket)
    asked = permissions_of_caller(call.values("permissions"))
    held = granted_permissions(call.request.get(ACCOUNT), asked)
    resource: Resource = {"kind": "storage#testIamPermissionsResponse"}
    return reply(call, resource | ({"permissions": held} if held else {}))


async def get_storage_layout(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Where the bucket is, and that its names are flat."""
    location = location_of(service.objects.buckets.get(call.bucket))
    resource = {
        "kind": "storage#storageLayout",
        "bucket": call.bucket,
        "location": location,
        "locationType": location_type(location),
        "hierarchicalNamespace": {"enabled": False},
    }
    return reply(call, resource)


async def list_managed_folders(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """None: none can be made here. gcloud asks before it deletes recursively."""
    service.objects.buckets.get(call.bucket)
    return reply(call, {"kind": "storage#managedFolders"})
