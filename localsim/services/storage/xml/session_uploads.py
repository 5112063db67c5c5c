"""Resumable uploads of the XML API: begun by POST of an object, continued at the session's URL."""

import dataclasses
from urllib.parse import urlencode

from aiohttp import web

from localsim.rules.objects.storage_model import StorageError
from localsim.services.storage.methods.resumable import cancel_resumable, continue_resumable
from localsim.services.storage.methods.single_uploads import (
    data_key_of,
    upload_keys,
    with_encryption,
)
from localsim.services.storage.service import StorageService
from localsim.services.storage.wire.json_requests import (
    StorageCall,
    parse_int64,
    required_parameter,
)
from localsim.services.storage.xml.xml_objects import new_object, written_headers

RESUMABLE = "x-goog-resumable"


async def start_session(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Begin an upload; whoever has the session's URL may send its bytes."""
    if call.request.headers[RESUMABLE].strip().lower() != "start":
        details = f"{RESUMABLE} must be start."
        raise StorageError(400, "InvalidArgument", "Invalid argument.", details=details)
    new = dataclasses.replace(new_object(call), declared_bytes=_declared_bytes(call))
    bucket = service.buckets.get(call.bucket)
    protection = service.objects.protections.choose(bucket, upload_keys(call, {}))
    data_key, encryption = data_key_of(protection)
    start = service.objects.uploads.start
    upload_id = await service.commit(start, with_encryption(new, encryption), data_key)
    call.trace.note_session(upload_id, new.name)
    path = call.request.raw_path.partition("?")[0]
    location = f"{call.origin}{path}?{urlencode({'upload_id': upload_id})}"
    headers = {"Location": location, "X-GUploader-UploadID": upload_id}
    return web.Response(status=201, headers=headers)


async def continue_session(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Take the next bytes of a session, or say how many are there."""
    _check_target(service, call)
    response = await continue_resumable(service, call)
    if response.status != 200 or "X-HTTP-Status-Code-Override" in response.headers:  # noqa: PLR2004
        return response
    stored = service.objects.uploads.result(required_parameter(call.query, "upload_id"))
    return web.Response(headers={} if stored is None else written_headers(stored))


async def cancel_session(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Delete a session and its bytes."""
    _check_target(service, call)
    return await cancel_resumable(service, call)


def _declared_bytes(call: StorageCall) -> int | None:
    """How many bytes the client says that it will send in all."""
    text = call.request.headers.get("X-Upload-Content-Length", "")
    return parse_int64(text) if text.isdecimal() else None


def _check_target(service: StorageService, call: StorageCall) -> None:
    """Raise 404 for a session that is not of the object in the path."""
    service.objects.uploads.require(call.key, required_parameter(call.query, "upload_id"))
