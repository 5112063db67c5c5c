"""Uploads in one request: media and multipart, streamed into the store, published when whole."""

import asyncio
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from localsim.cloud.objects_bodies import Body, IncomingBody
from localsim.cloud.objects_model import (
    Hashes,
    NewObject,
    StoredObject,
    check_object_name,
    invalid,
    writable_properties,
)
from localsim.services.storage_multipart import RelatedParser, boundary_of
from localsim.services.storage_requests import Call, expected_hashes, json_object, required
from localsim.services.storage_resources import object_resource
from localsim.services.storage_service import Service

SYNC_EVERY_BYTES = 32 * 1024 * 1024
_DEFAULT_TYPE = "application/octet-stream"


async def insert_media(service: Service, call: Call) -> web.StreamResponse:
    """The body is the object, the query its name."""
    headers = call.request.headers
    resource = {"name": required(call.query, "name")}
    new = new_object(call, resource, headers.get("Content-Type"))
    incoming = service.objects.bodies.receive()
    try:
        async for data in call.chunks():
            await receive(incoming, data)
        body = await sealed(service, incoming, new.expected)
        stored = await service.commits.run(lambda: service.objects.publish(new, body))
    finally:
        incoming.discard()
    return created(call, stored)


async def insert_multipart(service: Service, call: Call) -> web.StreamResponse:
    """The first part of the body is the resource, the second the object."""
    parser = RelatedParser(boundary_of(call.request.headers.get("Content-Type", "")))
    incoming = service.objects.bodies.receive()
    try:
        async for data in call.chunks():
            await receive(incoming, parser.feed(data))
        parser.check_end()
        new = new_object(call, json_object(parser.metadata or b""), parser.media_type)
        body = await sealed(service, incoming, new.expected)
        stored = await service.commits.run(lambda: service.objects.publish(new, body))
    finally:
        incoming.discard()
    return created(call, stored)


def new_object(call: Call, resource: Mapping[str, Any], media_type: str | None) -> NewObject:
    """What the client wants written: the query's name and the resource's type come first."""
    name = call.query.get("name") or resource.get("name")
    if not isinstance(name, str):
        raise invalid("Required parameter: name")
    check_object_name(name)
    given = {"contentType": media_type or _DEFAULT_TYPE, **resource}
    if "contentEncoding" in call.query:
        given["contentEncoding"] = call.query["contentEncoding"]
    return NewObject(
        bucket=call.bucket,
        name=name,
        properties=writable_properties(given),
        preconditions=call.preconditions,
        expected=expected_hashes(resource, call.request),
    )


async def receive(incoming: IncomingBody, data: bytes) -> None:
    """Write at once, and let the disk keep up: little is left to synchronize at the end."""
    before = incoming.size_bytes // SYNC_EVERY_BYTES
    incoming.write(data)
    if incoming.size_bytes // SYNC_EVERY_BYTES > before:
        await asyncio.to_thread(incoming.sync)


async def sealed(service: Service, incoming: IncomingBody, expected: Hashes) -> Body:
    """Check the body and make it durable, in a thread when that blocks."""
    if incoming.is_on_disk:
        return await asyncio.to_thread(service.objects.bodies.seal, incoming, expected)
    return service.objects.bodies.seal(incoming, expected)


def created(call: Call, stored: StoredObject) -> web.Response:
    """The reply to a finished upload."""
    return web.json_response(object_resource(stored, call.origin))
