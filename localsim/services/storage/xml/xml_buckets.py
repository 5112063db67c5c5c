"""The service and bucket methods of the XML API: who has which buckets, and what is in one."""

import base64
from collections.abc import Callable
from urllib.parse import quote

from aiohttp import web

from localsim.rules.objects.listing import MAX_PAGE, Listing, ListQuery
from localsim.rules.objects.storage_model import MAX_NAME_BYTES, StoredObject, invalid
from localsim.services.storage.resources.object_resources import timestamp
from localsim.services.storage.service import StorageService
from localsim.services.storage.wire.json_requests import Query, StorageCall
from localsim.services.storage.xml.documents import OF_LISTINGS, Tree, xml_response
from localsim.services.storage.xml.xml_requests import etag_of, parse_number, project_of

Spell = Callable[[str], str]
_LAST = "\U0010ffff" * (MAX_NAME_BYTES // 4)
"""No name with a prefix is behind the prefix and this: it would be too long."""


async def list_buckets(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """All buckets of the project that a header names, or that of whoever signs with HMAC."""
    project = project_of(call.request)
    if not project:
        raise invalid("The header x-goog-project-id must name the project.")
    buckets = service.buckets.list(project, prefix="", start="", limit=-1)
    rows = [
        ("Bucket", (("Name", bucket.name), ("CreationDate", timestamp(bucket.created_s))))
        for bucket in buckets
    ]
    tree = (("Owner", (("ID", project),)), ("Buckets", rows))
    return xml_response("ListAllMyBucketsResult", tree, OF_LISTINGS)


async def head_bucket(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Whether the bucket is there."""
    bucket = service.buckets.get(call.bucket, call.preconditions, reading=True)
    return web.Response(headers={"X-Goog-Metageneration": str(bucket.metageneration)})


async def list_objects(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """One page of a bucket's objects, as either version of the listing has it."""
    version = call.query.get("list-type", "1")
    if version not in _VERSIONS:
        raise invalid(f"Invalid value for list-type: {version!r}")
    start, describe = _VERSIONS[version]
    query = ListQuery(
        prefix=call.query.get("prefix", ""),
        delimiter=call.query.get("delimiter", ""),
        start=start(call.query),
        limit=page_limit(call.query, "max-keys"),
    )
    # A page of nothing has none behind it, or it would never end.
    listing = service.objects.list(call.bucket, query) if query.limit else Listing()
    spell = spelling(call.query)
    tree: Tree = (
        ("Name", call.bucket),
        ("Prefix", spell(query.prefix)),
        ("Delimiter", spell(query.delimiter) if query.delimiter else None),
        ("MaxKeys", query.limit),
        ("EncodingType", "url" if "encoding-type" in call.query else None),
        *describe(call.query, listing, spell),
        ("IsTruncated", "false" if listing.next_start is None else "true"),
        *(("Contents", _contents(stored, spell)) for stored in listing.items),
        *(("CommonPrefixes", (("Prefix", spell(prefix)),)) for prefix in listing.prefixes),
    )
    return xml_response("ListBucketResult", tree, OF_LISTINGS)


def page_limit(query: Query, name: str) -> int:
    """The largest number of results on a page."""
    limit = parse_number(query, name)
    return MAX_PAGE if limit is None else min(limit, MAX_PAGE)


def spelling(query: Query) -> Spell:
    """How names are written: as they are, or percent-encoded for what XML cannot hold."""
    encoding = query.get("encoding-type")
    if encoding not in (None, "url"):
        raise invalid(f"Invalid value for encoding-type: {encoding!r}")
    return str if encoding is None else quote


def _contents(stored: StoredObject, spell: Spell) -> Tree:
    return (
        ("Key", spell(stored.name)),
        ("Generation", stored.generation),
        ("MetaGeneration", stored.metageneration),
        ("LastModified", timestamp(stored.updated_s)),
        ("ETag", etag_of(stored)),
        ("Size", stored.size_bytes),
        ("StorageClass", stored.properties.get("storageClass", "STANDARD")),
    )


def _marked_start(query: Query) -> str:
    """The start after the name, or folded prefix, that ended the page before."""
    marker, delimiter = query.get("marker", ""), query.get("delimiter", "")
    prefix = query.get("prefix", "")
    if not marker:
        return ""
    is_folded = delimiter and marker.endswith(delimiter) and marker.startswith(prefix)
    if is_folded and marker.find(delimiter, len(prefix)) == len(marker) - len(delimiter):
        return marker + _LAST
    return marker + "\0"


def _first_version(query: Query, listing: Listing, spell: Spell) -> Tree:
    last = max(
        [*listing.prefixes[-1:], *(stored.name for stored in listing.items[-1:])], default=""
    )
    return (
        ("Marker", spell(query.get("marker", ""))),
        ("NextMarker", None if listing.next_start is None else spell(last)),
    )


def _continued_start(query: Query) -> str:
    """Where the page of the given token begins, or behind a name."""
    token = query.get("continuation-token")
    if token is None:
        after = query.get("start-after", "")
        return after and after + "\0"
    try:
        return base64.b64decode(token, b"-_", validate=True).decode()
    except ValueError:
        raise invalid("The continuation token provided is incorrect.") from None


def _second_version(query: Query, listing: Listing, spell: Spell) -> Tree:
    token, after = query.get("continuation-token"), query.get("start-after")
    following = None
    if listing.next_start is not None:
        following = base64.urlsafe_b64encode(listing.next_start.encode()).decode()
    return (
        ("ContinuationToken", None if token is None else spell(token)),
        ("StartAfter", None if after is None else spell(after)),
        ("KeyCount", len(listing)),
        ("NextContinuationToken", following),
    )


_VERSIONS = {"1": (_marked_start, _first_version), "2": (_continued_start, _second_version)}
