"""The bucket methods of the JSON API."""

from typing import Any

from aiohttp import web

from localsim.rules.objects.bucket_settings.ip_filter import IP_FILTER, summarized_filter
from localsim.rules.objects.bucket_settings.placement import location_of_settings, location_type
from localsim.rules.objects.buckets.policies import permissions_of_caller
from localsim.rules.objects.storage_model import Bucket
from localsim.services.auth.iam import granted_permissions
from localsim.services.storage.methods.restore_methods import (
    get_deleted_bucket,
    is_about_deleted,
    list_deleted_buckets,
)
from localsim.services.storage.resources.access_resources import (
    asked_bucket_lists,
    bucket_lists,
    require_permission,
    shows_lists,
)
from localsim.services.storage.resources.object_resources import (
    BUCKET_LISTS,
    Resource,
    bucket_resource,
    reply,
)
from localsim.services.storage.service import StorageService
from localsim.services.storage.wire import json_requests as requests
from localsim.services.storage.wire.json_errors import missing_parameter
from localsim.services.storage.wire.json_requests import ACCOUNT, StorageCall

_CHANGES_LISTS = "storage.buckets.setIamPolicy"


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
    lists = asked_bucket_lists(call, resource)
    bucket = await service.commit(service.buckets.create, project, name, resource, lists)
    return _bucket_reply(service, call, bucket)


async def get_bucket(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Describe a bucket."""
    if is_about_deleted(call):
        return await get_deleted_bucket(service, call)
    bucket = service.buckets.get(call.bucket, call.preconditions, reading=True)
    return _bucket_reply(service, call, bucket)


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
        shown = (_resource(service, call, bucket) for bucket in buckets[:limit])
        page["items"] = [dict(summarized_filter(resource)) for resource in shown]
    return reply(call, page)


async def delete_bucket(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Delete an empty bucket."""
    await service.commit(service.buckets.delete, call.bucket, call.preconditions)
    return web.Response(status=204)


async def patch_bucket(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Change some of a bucket's fields."""
    change = await requests.read_json_body(call.request)
    if IP_FILTER in change:
        require_permission(call, "storage.buckets.setIpFilter")
    lists = asked_bucket_lists(call, change, _CHANGES_LISTS)
    patch = service.buckets.patch
    bucket = await service.commit(patch, call.bucket, change, call.preconditions, lists)
    return _bucket_reply(service, call, bucket)


async def update_bucket(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Replace what is stored of a bucket's fields."""
    settings = await requests.read_json_body(call.request)
    lists = asked_bucket_lists(call, settings, _CHANGES_LISTS)
    update = service.buckets.update
    bucket = await service.commit(update, call.bucket, settings, call.preconditions, lists)
    return _bucket_reply(service, call, bucket)


async def lock_retention_policy(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Lock the retention policy for ever; the metageneration must be given."""
    requests.required_parameter(call.query, "ifMetagenerationMatch")
    lock = service.buckets.lock_retention_policy
    bucket = await service.commit(lock, call.bucket, call.preconditions)
    return _bucket_reply(service, call, bucket)


def _bucket_reply(service: StorageService, call: StorageCall, bucket: Bucket) -> web.Response:
    return reply(call, _resource(service, call, bucket), {"ETag": bucket.etag})


def _resource(service: StorageService, call: StorageCall, bucket: Bucket) -> Resource:
    resource = bucket_resource(bucket, call.origin)
    if not shows_lists(call, BUCKET_LISTS):
        return resource
    return resource | bucket_lists(bucket, service.buckets.shown_lists(bucket), call.origin)


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
    """The bucket's location, and whether it has folders; a flat bucket's layout is silent there."""
    settings = service.buckets.get(call.bucket).properties
    kept = ("customPlacementConfig", "hierarchicalNamespace")
    resource: Resource = {
        "kind": "storage#storageLayout",
        "bucket": call.bucket,
        "location": location_of_settings(settings),
        "locationType": location_type(settings),
        **{name: settings[name] for name in kept if name in settings},
    }
    return reply(call, resource)
