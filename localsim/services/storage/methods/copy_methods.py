"""The methods that make objects of others: compose, copy, rewrite, move."""

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from localsim.rules.objects.object_copies import ComposeSource
from localsim.rules.objects.properties import writable_properties
from localsim.rules.objects.rewrites import RewriteRequest
from localsim.rules.objects.storage_model import (
    NewObject,
    ObjectKey,
    StoredObject,
    check_object_name,
    invalid,
)
from localsim.services.storage.methods.single_uploads import check_agreement
from localsim.services.storage.service import StorageService
from localsim.services.storage.wire.access_resources import asked_access
from localsim.services.storage.wire.json_errors import missing_parameter
from localsim.services.storage.wire.json_requests import (
    DEFAULT_TYPE,
    StorageCall,
    integer_parameter,
    read_json_body,
)
from localsim.services.storage.wire.resources import (
    Resource,
    full_object_resource,
    object_reply,
    reply,
)

_TARGET_ACL = "destinationPredefinedAcl"


async def compose_object(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Join up to 32 objects of the bucket."""
    resource = await read_json_body(call.request)
    destination = _mapping(resource.get("destination") or {}, "destination")
    check_agreement(destination, bucket=call.bucket, name=call.key.name)
    sources = resource.get("sourceObjects") or []
    if not isinstance(sources, list):
        raise invalid("sourceObjects must be a list.")
    parts = [_compose_source(_mapping(source, "sourceObjects")) for source in sources]
    properties = writable_properties(destination) | asked_access(call, destination, _TARGET_ACL)
    new = NewObject(call.bucket, call.key.name, properties, call.preconditions)
    deletes = resource.get("deleteSourceObjects") is True
    check_object_name(new.name)
    compose = service.objects.compose
    stored = await service.commit(compose, new, parts, delete_sources=deletes)
    return _made(call, stored)


async def copy_object(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Copy an object, with its metadata unless the body brings other."""
    new, keeps_metadata = await _target(call)
    stored = await service.commit(
        service.objects.copy,
        _source(call),
        call.source_preconditions,
        new,
        keeps_metadata=keeps_metadata,
    )
    return _made(call, stored)


async def rewrite_object(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Copy an object, in several calls where the bytes change their place or class."""
    new, keeps_metadata = await _target(call)
    request = RewriteRequest(
        _source(call),
        call.source_preconditions,
        new,
        keeps_metadata=keeps_metadata,
        call_bytes=integer_parameter(call.query, "maxBytesRewrittenPerCall"),
    )
    token = call.query.get("rewriteToken") or None
    rewrite = await service.commit(service.objects.rewrites.rewrite, request, token)
    resource: Resource = {
        "kind": "storage#rewriteResponse",
        "totalBytesRewritten": str(rewrite.written_bytes),
        "objectSize": str(rewrite.size_bytes),
        "done": rewrite.result is not None,
    }
    if rewrite.result is None:
        return reply(call, resource | {"rewriteToken": rewrite.token})
    call.trace.note_object(rewrite.result)
    return reply(call, resource | {"resource": full_object_resource(call, rewrite.result)})


async def move_object(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Rename an object within its bucket."""
    check_object_name(call.names["to_object"])
    stored = await service.commit(
        service.objects.move,
        _source(call),
        call.names["to_object"],
        call.source_preconditions,
        call.preconditions,
    )
    return _made(call, stored)


def _made(call: StorageCall, stored: StoredObject) -> web.Response:
    """The reply with an object that the call has made."""
    call.trace.note_object(stored)
    return object_reply(call, stored)


def _compose_source(resource: Mapping[str, Any]) -> ComposeSource:
    name = resource.get("name")
    if not isinstance(name, str) or not name:
        raise missing_parameter("sourceObjects.name")
    check_object_name(name)
    conditions = _mapping(resource.get("objectPreconditions") or {}, "objectPreconditions")
    generation = _number(resource, "generation")
    return ComposeSource(name, generation, _number(conditions, "ifGenerationMatch"))


def _number(resource: Mapping[str, Any], name: str) -> int | None:
    """An int64, which JSON may write as a string."""
    value = resource.get(name)
    if value is None or isinstance(value, bool):
        return None
    return integer_parameter({name: str(value)}, name)


def _mapping(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise invalid(f"{name} must be an object.")
    return value


def _source(call: StorageCall) -> ObjectKey:
    return ObjectKey(call.bucket, call.key.name, integer_parameter(call.query, "sourceGeneration"))


async def _target(call: StorageCall) -> tuple[NewObject, bool]:
    """What is to be, and whether its metadata is that of the source.

    A body with any metadata in it stands for all of the metadata.
    """
    resource = await read_json_body(call.request)
    bucket, name = call.names["to_bucket"], call.names["to_object"]
    check_agreement(resource, bucket=bucket, name=name)
    check_object_name(name)
    properties = writable_properties(resource)
    access = asked_access(call, resource, _TARGET_ACL)
    given = {"contentType": DEFAULT_TYPE, **properties, **access}
    return NewObject(bucket, name, given, call.preconditions), not properties
