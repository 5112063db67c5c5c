"""Buckets made, deleted and set up in the XML API, and the listing of all generations.

What boto sends, with which gsutil's own tests make and empty their buckets. Pages:
cloud.google.com/storage/docs/xml-api, put-bucket-create, put-bucket-version, get-bucket-list.
"""

import re
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from localsim.rules.objects.listing import ListQuery
from localsim.rules.objects.storage_model import StorageError, StoredObject
from localsim.services.storage.resources.object_resources import timestamp
from localsim.services.storage.service import StorageService
from localsim.services.storage.wire.json_requests import MAX_JSON_BYTES, StorageCall, read_all
from localsim.services.storage.xml.documents import OF_LISTINGS, Tree, xml_response
from localsim.services.storage.xml.xml_buckets import page_limit
from localsim.services.storage.xml.xml_requests import etag_of, parse_number, project_of

_CONFLICT = 409
_SETTINGS: Mapping[str, str] = {"LocationConstraint": "location", "StorageClass": "storageClass"}
"""Elements of CreateBucketConfiguration -> settings of a bucket."""


async def put_bucket(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Make a bucket with the place and class of the body, in the project of the request."""
    project = project_of(call.request)
    if not project:
        raise StorageError(400, "MissingProjectId", "The x-goog-project-id header is missing.")
    texts = await _element_texts(call)
    resource = {name: texts[element] for element, name in _SETTINGS.items() if texts.get(element)}
    with_name: dict[str, Any] = {"name": call.bucket, **resource}
    try:
        await service.commit(service.buckets.create, project, call.bucket, with_name)
    except StorageError as error:
        raise _coded(error, "BucketAlreadyOwnedByYou") from None
    return web.Response()


async def delete_bucket(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Delete an empty bucket."""
    try:
        await service.commit(service.buckets.delete, call.bucket, call.preconditions)
    except StorageError as error:
        raise _coded(error, "BucketNotEmpty") from None
    return web.Response(status=204)


async def get_versioning(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Whether the bucket keeps noncurrent generations; it says nothing where that was never set."""
    versioning = service.buckets.get(call.bucket).properties.get("versioning")
    status = None if versioning is None else _status(is_enabled=bool(versioning.get("enabled")))
    return xml_response("VersioningConfiguration", (("Status", status),))


async def put_versioning(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Have the bucket keep noncurrent generations, or not."""
    status = (await _element_texts(call)).get("Status", "")
    if status not in (_status(is_enabled=True), _status(is_enabled=False)):
        message = "The XML you provided was not well-formed or did not validate."
        raise StorageError(400, "MalformedXML", message)
    change = {"versioning": {"enabled": status == _status(is_enabled=True)}}
    await service.commit(service.buckets.patch, call.bucket, change, call.preconditions)
    return web.Response()


async def list_versions(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """One page of a bucket's objects with their noncurrent generations, oldest first."""
    marker = call.query.get("marker", "")
    query = ListQuery(
        prefix=call.query.get("prefix", ""),
        delimiter=call.query.get("delimiter", ""),
        start=marker,
        start_generation=parse_number(call.query, "generation-marker") or 0,
        limit=page_limit(call.query, "max-keys"),
        versions=True,
    )
    listing = service.objects.list(call.bucket, query)
    is_whole = listing.next_start is None
    tree: Tree = (
        ("Name", call.bucket),
        ("Prefix", query.prefix),
        ("Delimiter", query.delimiter or None),
        ("Marker", marker),
        ("NextMarker", listing.next_start),
        ("NextGenerationMarker", None if is_whole else listing.next_generation),
        ("MaxKeys", query.limit),
        ("IsTruncated", "false" if is_whole else "true"),
        *(("Version", _version(stored)) for stored in listing.items),
        *(("CommonPrefixes", (("Prefix", prefix),)) for prefix in listing.prefixes),
    )
    return xml_response("ListBucketResult", tree, OF_LISTINGS)


def _version(stored: StoredObject) -> Tree:
    return (
        ("Key", stored.name),
        ("Generation", stored.generation),
        ("MetaGeneration", stored.metageneration),
        ("IsLatest", "true" if stored.deleted_s is None else "false"),
        ("LastModified", timestamp(stored.updated_s)),
        ("ETag", etag_of(stored)),
        ("Size", stored.size_bytes),
        ("StorageClass", stored.properties.get("storageClass", "STANDARD")),
    )


async def _element_texts(call: StorageCall) -> Mapping[str, str]:
    """The texts of the body's innermost elements; the documents of these methods are flat."""
    too_large = StorageError(400, "MalformedXML", "The XML you provided was too large.")
    body = await read_all(call.chunks(), MAX_JSON_BYTES, too_large)
    return dict(re.findall(r"<(\w+)>([^<]*)</\1>", body.decode("utf-8", "replace")))


def _status(*, is_enabled: bool) -> str:
    return "Enabled" if is_enabled else "Suspended"


def _coded(error: StorageError, code: str) -> StorageError:
    """A conflict under the code that this API has for it; any other error as it is."""
    return StorageError(error.code, code, error.message) if error.code == _CONFLICT else error
