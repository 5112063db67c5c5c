"""The bucket methods of the JSON API."""

from typing import Any

from aiohttp import web

from localsim.rules.objects.buckets.ip_filter import IP_FILTER, summarized_filter
from localsim.rules.objects.buckets.policies import permissions_of_caller
from localsim.rules.objects.storage_model import Bucket
from localsim.services.auth.iam import granted_permissions
from localsim.services.storage.admission import require_permission
from localsim.services.storage.methods.restore_methods import (
    get_deleted_bucket,
    is_about_deleted,
    list_deleted_buckets,
)
from localsim.services.storage.service import StorageService
from localsim.services.storage.wire import json_requests as requests
from localsim.services.storage.wire.json_errors import missing_parameter
from localsim.services.storage.wire.json_requests import ACCOUNT, StorageCall
from localsim.services.storage.wire.resources import (
    Resource,
    bucket_resource,
    location_of,
    location_type_of,
    reply,
)


async def insert_bucket(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Create a bucket; a setting it would not honour is refused."""
    resource = await requests.read_json_body(call.request)
    name = resource.get("name")
    if not isinstance(name, str):
        raise missing_parameter("name")
    project = requests.required_parameter(call.query, "project")
    if requests.flag_parameter(call.query, "enableObjectRetention"):
        require_permission(call, "storage.buckets.enableObjectRetention")
        resource["objectRetention"] = {"mode": "Enabled"}
    bucket = await service.commit(service.buckets.create, project, name, resource)
    return _bucket_reply(call, bucket)


async def get_bucket(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Describe a bucket."""
    if is_about_deleted(call):
        return await get_deleted_bucket(service, call)
    bucket = service.buckets.get(call.bucket, call.preconditions, reading=True)
    return _bucket_reply(call, bucket)


async def list_buckets(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """One page of a project's buckets."""
    if is_about_deleted(call):
        return await list_deleted_buckets(service, call)
    limit = requests.page_limit(call.query)
    buckets = service.buckets.list(
        requests.required_parameter(call.query, "project"),
        prefix=call.query.get("prefix", ""),
        start=requests.page_start(call.query)[0],
        limit=limit + 1,
    )
    page: dict[str, Any] = {"kind": "storage#buckets"}
    if len(buckets) > limit:
        page["nextPageToken"] = requests.page_token(buckets[limit].name)
    if buckets:
        page["items"] = [_summary(bucket, call.origin) for bucket in buckets[:limit]]
    return reply(call, page)


def _summary(bucket: Bucket, origin: str) -> Resource:
    """A bucket as it is shown among others."""
    return {**summarized_filter(bucket_resource(bucket, origin))}


async def delete_bucket(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Delete an empty bucket."""
    await service.commit(service.buckets.delete, call.bucket, call.preconditions)
    return web.Response(status=204)


async def patch_bucket(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Change some of a bucket's fields."""
    change = await requests.read_json_body(call.request)
    if IP_FILTER in change:
        require_permission(call, "storage.buckets.setIpFilter")
    bucket = await service.commit(service.buckets.patch, call.bucket, change, call.preconditions)
    return _bucket_reply(call, bucket)


async def update_bucket(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Replace what is stored of a bucket's fields."""
    settings = await requests.read_json_body(call.request)
    bucket = await service.commit(service.buckets.update, call.bucket, settings, call.preconditions)
    return _bucket_reply(call, bucket)


async def lock_retention_policy(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Lock the retention policy for ever; the metageneration must be given."""
    requests.required_parameter(call.query, "ifMetagenerationMatch")
    lock = service.buckets.lock_retention_policy
    return _bucket_reply(call, await service.commit(lock, call.bucket, call.preconditions))


def _bucket_reply(call: StorageCall, bucket: Bucket) -> web.Response:
    return reply(call, bucket_resource(bucket, call.origin), {"ETag": bucket.etag})


async def get_iam_policy(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """The bucket's policy; it adds to what the project's policy grants."""
    version = requests.integer_parameter(call.query, "optionsRequestedPolicyVersion") or 1
    return reply(call, service.buckets.get_iam_policy(call.bucket, version))


async def set_iam_policy(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Replace the bucket's policy; 412 when its etag is given and is not the present one."""
    given = await requests.read_json_body(call.request)
    return reply(call, await service.commit(service.buckets.set_iam_policy, call.bucket, given))


async def test_iam_permissions(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """The asked permissions that the caller has; a caller without account has all."""
    service.buckets.get(call.bucket)
    asked = permissions_of_caller(call.request.query.getall("permissions", []))
    held = granted_permissions(call.request.get(ACCOUNT), asked)
    resource: Resource = {"kind": "storage#testIamPermissionsResponse"}
    return reply(call, resource | ({"permissions": held} if held else {}))


async def get_storage_layout(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """The bucket's location, and that its names are flat."""
    bucket = service.buckets.get(call.bucket)
    resource: Resource = {
        "kind": "storage#storageLayout",
        "bucket": call.bucket,
        "location": location_of(bucket),
        "locationType": location_type_of(bucket),
        "hierarchicalNamespace": {"enabled": False},
    }
    if "customPlacementConfig" in bucket.properties:
        resource["customPlacementConfig"] = bucket.properties["customPlacementConfig"]
    return reply(call, resource)


async def list_managed_folders(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Answer that there are none; gcloud asks before it deletes recursively."""
    service.buckets.get(call.bucket)
    return reply(call, {"kind": "storage#managedFolders"})
