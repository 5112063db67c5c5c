"""Buckets and objects as resources of the JSON API."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import formatdate
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from aiohttp import web

from localsim import accounts
from localsim.rules.objects.buckets.bucket_access import DEFAULT_FIELD
from localsim.rules.objects.buckets.bucket_fields import shown_configuration
from localsim.rules.objects.listing import Listing
from localsim.rules.objects.storage_model import Bucket, StoredObject
from localsim.services.rest.rest_fields import Mask, apply_mask
from localsim.services.storage.wire.access_resources import object_lists, shows_lists
from localsim.services.storage.wire.json_requests import DEFAULT_TYPE, StorageCall

Resource = dict[str, Any]
Field = Callable[[StoredObject, str], Any]
MULTI_REGIONS = ("ASIA", "EU", "US")
OBJECT_LISTS, BUCKET_LISTS = "storage.objects.getIamPolicy", "storage.buckets.getIamPolicy"
"""The permissions of those who see access control lists."""


def _of_properties(name: str) -> Field:
    return lambda stored, _origin: stored.properties.get(name)


@lru_cache(maxsize=16)
def _quoted(name: str) -> str:
    """The percent-encoded name; it is remembered, as each name is in both of its links."""
    return quote(name, safe="")


def _path(stored: StoredObject) -> str:
    return f"storage/v1/b/{stored.bucket}/o/{_quoted(stored.name)}"


_OBJECT_FIELDS: Mapping[str, Field] = {
    "kind": lambda _stored, _origin: "storage#object",
    "id": lambda stored, _: f"{stored.bucket}/{stored.name}/{stored.generation}",
    "selfLink": lambda stored, origin: f"{origin}/{_path(stored)}",
    "mediaLink": lambda stored, origin: (
        f"{origin}/download/{_path(stored)}?generation={stored.generation}&alt=media"
    ),
    "name": lambda stored, _: stored.name,
    "bucket": lambda stored, _: stored.bucket,
    "generation": lambda stored, _: str(stored.generation),
    "metageneration": lambda stored, _: str(stored.metageneration),
    "contentType": _of_properties("contentType"),
    "storageClass": lambda stored, _: stored.properties.get("storageClass", "STANDARD"),
    "size": lambda stored, _: str(stored.size_bytes),
    "md5Hash": lambda stored, _: stored.md5,
    "crc32c": lambda stored, _: stored.crc32c,
    "componentCount": lambda stored, _: stored.component_count,
    "etag": lambda stored, _: stored.etag,
    "cacheControl": _of_properties("cacheControl"),
    "contentDisposition": _of_properties("contentDisposition"),
    "contentEncoding": _of_properties("contentEncoding"),
    "contentLanguage": _of_properties("contentLanguage"),
    "customTime": _of_properties("customTime"),
    "temporaryHold": _of_properties("temporaryHold"),
    "eventBasedHold": _of_properties("eventBasedHold"),
    "retentionExpirationTime": _of_properties("retentionExpirationTime"),
    "metadata": _of_properties("metadata"),
    "timeCreated": lambda stored, _: timestamp(stored.created_s),
    "updated": lambda stored, _: timestamp(stored.updated_s),
    "timeDeleted": lambda stored, _: (
        None if stored.deleted_s is None else timestamp(stored.deleted_s)
    ),
    "timeStorageClassUpdated": lambda stored, _: timestamp(stored.created_s),
    "timeFinalized": lambda stored, _: timestamp(stored.created_s),
}
"""storage#object field by field; what is None is left out, as Google does."""


def reply(
    call: StorageCall, resource: Resource, headers: Mapping[str, str] | None = None
) -> web.Response:
    """The reply with a resource, or with what `fields` selects of it."""
    return json_reply(apply_mask(resource, call.fields), headers)


def json_reply(document: Any, headers: Mapping[str, str] | None = None) -> web.Response:
    """A reply with a JSON document."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    given = {"Content-Type": "application/json; charset=UTF-8", **(headers or {})}
    return web.Response(body=text.encode(errors="replace"), headers=given)


def bucket_resource(bucket: Bucket, origin: str) -> Resource:
    """A bucket as storage#bucket; links name the host that the client used."""
    location = location_of(bucket)
    settings = {name: value for name, value in bucket.properties.items() if name != DEFAULT_FIELD}
    return {
        "kind": "storage#bucket",
        "id": bucket.name,
        "selfLink": f"{origin}/storage/v1/b/{bucket.name}",
        "projectNumber": str(accounts.project_number(bucket.project)),
        "name": bucket.name,
        "generation": str(bucket.generation),
        "metageneration": str(bucket.metageneration),
        "storageClass": "STANDARD",
        **settings,
        "iamConfiguration": shown_configuration(bucket),
        "location": location,
        "locationType": location_type(location),
        "timeCreated": timestamp(bucket.created_s),
        "updated": timestamp(bucket.updated_s),
        "etag": bucket.etag,
    }


def location_of(bucket: Bucket) -> str:
    """The bucket's location in capitals."""
    return str(bucket.properties.get("location", "US")).upper()


def location_type(location: str) -> str:
    """The type of a location: `region` or `multi-region`."""
    return "multi-region" if location in MULTI_REGIONS else "region"


def object_resource(stored: StoredObject, origin: str) -> Resource:
    """The object as storage#object; links name the host that the client used."""
    return {
        name: value
        for name, field in _OBJECT_FIELDS.items()
        if (value := field(stored, origin)) is not None
    }


def object_reply(
    call: StorageCall, stored: StoredObject, headers: Mapping[str, str] | None = None
) -> web.Response:
    """The reply with an object."""
    if shows_lists(call, OBJECT_LISTS):
        resource = apply_mask(full_object_resource(call, stored), call.fields)
    else:
        (resource,) = _chosen([stored], call.origin, call.fields)
    return json_reply(resource, {"ETag": stored.etag, **(headers or {})})


def full_object_resource(call: StorageCall, stored: StoredObject) -> Resource:
    """The object as storage#object, with its access control list where the reply shows it."""
    resource = object_resource(stored, call.origin)
    if not shows_lists(call, OBJECT_LISTS):
        return resource
    return resource | object_lists(stored, call.access_of(stored), call.origin)


def listing_reply(call: StorageCall, listing: Listing, next_page_token: str | None) -> web.Response:
    """One page as storage#objects: of its objects only the fields asked for are ever made."""
    page: Resource = {"kind": "storage#objects"}
    if next_page_token:
        page["nextPageToken"] = next_page_token
    if listing.prefixes:
        page["prefixes"] = listing.prefixes
    mask = call.fields
    if not mask or "*" in mask or shows_lists(call, OBJECT_LISTS):
        if listing.items:
            page["items"] = [full_object_resource(call, item) for item in listing.items]
        return reply(call, page)
    page = {name: value for name, value in page.items() if name in mask}
    if listing.items and "items" in mask:
        page["items"] = _chosen(listing.items, call.origin, mask["items"])
    return json_reply(page)


def _chosen(items: Sequence[StoredObject], origin: str, mask: Mask) -> list[Resource]:
    if not mask or "*" in mask:
        return [apply_mask(object_resource(item, origin), mask) for item in items]
    fields = [(name, _OBJECT_FIELDS[name]) for name in mask if name in _OBJECT_FIELDS]
    chosen = [
        {name: value for name, field in fields if (value := field(item, origin)) is not None}
        for item in items
    ]
    return [apply_mask(item, mask) for item in chosen] if any(mask.values()) else chosen


HEADER_FIELDS = {
    "Cache-Control": "cacheControl",
    "Content-Disposition": "contentDisposition",
    "Content-Encoding": "contentEncoding",
    "Content-Language": "contentLanguage",
}
"""The headers that are fields of an object under another name."""


def hash_header(stored: StoredObject) -> str:
    """The value of X-Goog-Hash: the checksums that are known."""
    return f"crc32c={stored.crc32c}" + (f",md5={stored.md5}" if stored.md5 else "")


def media_headers(stored: StoredObject) -> dict[str, str]:
    """The headers of a download that say which object, which version and what checksums."""
    properties = stored.properties
    given = {
        header: properties[name] for header, name in HEADER_FIELDS.items() if properties.get(name)
    }
    return {
        "Content-Type": properties.get("contentType") or DEFAULT_TYPE,
        "Accept-Ranges": "bytes",
        "ETag": stored.etag,
        "Last-Modified": formatdate(stored.updated_s, usegmt=True),
        "X-Goog-Generation": str(stored.generation),
        "X-Goog-Metageneration": str(stored.metageneration),
        "X-Goog-Hash": hash_header(stored),
        "X-Goog-Storage-Class": properties.get("storageClass", "STANDARD"),
        "X-Goog-Stored-Content-Encoding": properties.get("contentEncoding", "identity"),
        "X-Goog-Stored-Content-Length": str(stored.size_bytes),
        **given,
    }


def timestamp(seconds: float) -> str:
    """RFC 3339 in UTC, to the millisecond."""
    whole, thousandths = divmod(int(seconds * 1000), 1000)
    return f"{_second(whole)}.{thousandths:03d}Z"


@lru_cache(maxsize=4096)
def _second(whole: int) -> str:
    return datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S")
