"""The methods of what is soft-deleted."""

import asyncio
import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from aiohttp import web

from localsim.rules.objects.buckets.bucket_operations import BULK_RESTORE
from localsim.rules.objects.restores import BulkProgress, BulkRestore
from localsim.rules.objects.storage_model import invalid
from localsim.services.storage.resources.object_resources import (
    Resource,
    bucket_resource,
    object_reply,
    reply,
)
from localsim.services.storage.resources.operation_resources import operation_resource
from localsim.services.storage.service import StorageService
from localsim.services.storage.wire import json_requests as requests
from localsim.services.storage.wire.json_errors import missing_parameter
from localsim.services.storage.wire.json_requests import StorageCall


def is_about_deleted(call: StorageCall) -> bool:
    """Whether a call asks for what is soft-deleted and not for what is there."""
    return requests.flag_parameter(call.query, "softDeleted")


async def get_deleted_object(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Describe a soft-deleted object; its bytes cannot be read."""
    if call.query.get("alt") == "media":
        raise invalid("The data of a soft-deleted object cannot be read.")
    _generation(call)
    token = call.query.get("restoreToken", "")
    return object_reply(call, service.objects.restores.get(call.key, call.preconditions, token))


async def restore_object(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Make a soft-deleted object live again, as a new generation."""
    _generation(call)
    copies_acl = requests.flag_parameter(call.query, "copySourceAcl")
    stored = await service.commit(
        service.objects.restores.restore,
        call.key,
        call.preconditions,
        call.query.get("restoreToken", ""),
        copies_acl=copies_acl,
    )
    call.trace.note_object(stored)
    return object_reply(call, await service.md5s.shown(service.objects, stored))


async def bulk_restore(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Restore the soft-deleted objects that the body chooses; the operation is done at once."""
    resource = await requests.read_json_body(call.request)
    wanted = _bulk_restore(call.bucket, resource)
    began_s = service.objects.clock.now()
    found = service.objects.restores.count(call.bucket)
    progress = BulkProgress()
    while not progress.is_done:
        progress = await service.commit(service.objects.restores.restore_some, wanted, progress)
        await asyncio.sleep(0)  # others have their turn
    counts = {
        "succeededCount": progress.succeeded,
        "skippedCount": max(0, found - progress.succeeded - progress.failed),
        "failedCount": progress.failed,
    }
    metadata = {**resource, **{name: str(count) for name, count in counts.items()}}
    operation = await service.commit(
        service.objects.operations.add,
        call.bucket,
        BULK_RESTORE,
        metadata,
        began_s=began_s,
        ended_s=service.objects.clock.now(),
    )
    return reply(call, operation_resource(operation))


async def get_deleted_bucket(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Describe a soft-deleted bucket."""
    bucket = service.buckets.deleted.get(call.bucket, _generation(call))
    call.preconditions.check(bucket, reading=True)
    return reply(call, bucket_resource(bucket, call.origin), {"ETag": bucket.etag})


async def list_deleted_buckets(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """One page of a project's soft-deleted buckets."""
    limit = requests.page_limit(call.query)
    buckets = service.buckets.deleted.list(
        requests.required_parameter(call.query, "project"),
        prefix=call.query.get("prefix", ""),
        start=requests.page_start(call.query),
        limit=limit + 1,
    )
    page: Resource = {"kind": "storage#buckets"}
    if len(buckets) > limit:
        following = buckets[limit]
        page["nextPageToken"] = requests.page_token(following.name, following.generation)
    if buckets:
        page["items"] = [bucket_resource(bucket, call.origin) for bucket in buckets[:limit]]
    return reply(call, page)


async def restore_bucket(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Make a soft-deleted bucket live again, without its objects."""
    bucket = await service.commit(service.buckets.restore, call.bucket, _generation(call))
    return reply(call, bucket_resource(bucket, call.origin), {"ETag": bucket.etag})


def _generation(call: StorageCall) -> int:
    """The generation, without which nothing soft-deleted can be named; ParameterError."""
    generation = requests.integer_parameter(call.query, "generation")
    if generation is None:
        raise missing_parameter("generation")
    return generation


def _bulk_restore(bucket: str, resource: Mapping[str, Any]) -> BulkRestore:
    globs = resource.get("matchGlobs") or []
    if not isinstance(globs, list) or not all(isinstance(each, str) for each in globs):
        raise invalid("matchGlobs must be a list of strings.")
    return BulkRestore(
        bucket,
        globs,
        deleted_after_s=_moment_s(resource, "softDeletedAfterTime", -math.inf),
        deleted_before_s=_moment_s(resource, "softDeletedBeforeTime", math.inf),
        created_after_s=_moment_s(resource, "createdAfterTime", -math.inf),
        created_before_s=_moment_s(resource, "createdBeforeTime", math.inf),
        overwrites=resource.get("allowOverwrite") is True,
        copies_acl=resource.get("copySourceAcl") is True,
    )


def _moment_s(resource: Mapping[str, Any], name: str, absent_s: float) -> float:
    if resource.get(name) is None:
        return absent_s
    try:
        moment = datetime.fromisoformat(str(resource[name]))
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise invalid(f"Invalid value for {name}: '{resource[name]}'")
    return moment.timestamp()
