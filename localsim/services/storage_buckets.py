"""The bucket methods of the JSON API."""

from typing import Any

from aiohttp import web

from localsim.cloud.objects_model import invalid, not_implemented
from localsim.services.storage_requests import (
    Call,
    json_body,
    page_limit,
    page_start,
    page_token,
    required,
)
from localsim.services.storage_resources import bucket_resource
from localsim.services.storage_service import Service

# Kept and shown, with no effect here: there is one place, one class and one user.
_STORED_FIELDS = ("iamConfiguration", "labels", "location", "storageClass")
_READ_ONLY_FIELDS = ("kind", "name", "id", "etag")


async def insert_bucket(service: Service, call: Call) -> web.StreamResponse:
    """Create a bucket; a property it would not honour is refused."""
    resource = await json_body(call.request)
    name = resource.get("name")
    if not isinstance(name, str):
        raise invalid("Required parameter: name")
    project, properties = required(call.query, "project"), _properties(resource)
    bucket = await service.commits.run(
        lambda: service.objects.buckets.create(project, name, properties)
    )
    return web.json_response(bucket_resource(bucket, call.origin))


async def get_bucket(service: Service, call: Call) -> web.StreamResponse:
    """Describe a bucket."""
    bucket = service.objects.buckets.get(call.bucket, call.preconditions, reading=True)
    return web.json_response(bucket_resource(bucket, call.origin))


async def list_buckets(service: Service, call: Call) -> web.StreamResponse:
    """One page of a project's buckets."""
    limit = page_limit(call.query)
    buckets = service.objects.buckets.list(
        required(call.query, "project"),
        prefix=call.query.get("prefix", ""),
        start=page_start(call.query),
        limit=limit + 1,
    )
    page: dict[str, Any] = {"kind": "storage#buckets"}
    if len(buckets) > limit:
        page["nextPageToken"] = page_token(buckets[limit].name)
    if buckets:
        page["items"] = [bucket_resource(bucket, call.origin) for bucket in buckets[:limit]]
    return web.json_response(page)


async def delete_bucket(service: Service, call: Call) -> web.StreamResponse:
    """Delete an empty bucket."""
    await service.commits.run(
        lambda: service.objects.buckets.delete(call.bucket, call.preconditions)
    )
    return web.Response(status=204)


def _properties(resource: dict[str, Any]) -> dict[str, Any]:
    for name, value in resource.items():
        if value and name not in (*_STORED_FIELDS, *_READ_ONLY_FIELDS):
            raise not_implemented(f"The bucket field {name!r}")
    return {name: resource[name] for name in _STORED_FIELDS if resource.get(name)}
