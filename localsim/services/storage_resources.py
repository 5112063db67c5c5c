"""How stored buckets and objects look on the wire of the JSON API."""

from datetime import UTC, datetime
from email.utils import formatdate
from typing import Any
from urllib.parse import quote

from localsim.cloud.objects_listing import Listing
from localsim.cloud.objects_model import Bucket, StoredObject

Resource = dict[str, Any]
MULTI_REGIONS = ("ASIA", "EU", "US")


def bucket_resource(bucket: Bucket, origin: str) -> Resource:
    """The bucket as storage#bucket; links name the host that the client used."""
    location = str(bucket.properties.get("location", "US")).upper()
    return {
        "kind": "storage#bucket",
        "id": bucket.name,
        "selfLink": f"{origin}/storage/v1/b/{bucket.name}",
        "name": bucket.name,
        "generation": str(bucket.generation),
        "metageneration": str(bucket.metageneration),
        "storageClass": "STANDARD",
        **bucket.properties,
        "location": location,
        "locationType": "multi-region" if location in MULTI_REGIONS else "region",
        "timeCreated": timestamp(bucket.created_s),
        "updated": timestamp(bucket.updated_s),
        "etag": bucket.etag,
    }


def object_resource(stored: StoredObject, origin: str) -> Resource:
    """The object as storage#object; links name the host that the client used."""
    path = f"storage/v1/b/{stored.bucket}/o/{quote(stored.name, safe='')}"
    created = timestamp(stored.created_s)
    hashes = {"crc32c": stored.crc32c} | ({"md5Hash": stored.md5} if stored.md5 else {})
    return {
        "kind": "storage#object",
        "id": f"{stored.bucket}/{stored.name}/{stored.generation}",
        "selfLink": f"{origin}/{path}",
        "mediaLink": f"{origin}/download/{path}?generation={stored.generation}&alt=media",
        "name": stored.name,
        "bucket": stored.bucket,
        "generation": str(stored.generation),
        "metageneration": str(stored.metageneration),
        "storageClass": "STANDARD",
        **stored.properties,
        "size": str(stored.size_bytes),
        **hashes,
        "etag": stored.etag,
        "timeCreated": created,
        "updated": timestamp(stored.updated_s),
        "timeStorageClassUpdated": created,
        "timeFinalized": created,
    }


def listing_resource(listing: Listing, origin: str, next_page_token: str | None) -> Resource:
    """One page as storage#objects; empty parts are left out, as Google does."""
    page: Resource = {"kind": "storage#objects"}
    if next_page_token:
        page["nextPageToken"] = next_page_token
    if listing.prefixes:
        page["prefixes"] = listing.prefixes
    if listing.items:
        page["items"] = [object_resource(item, origin) for item in listing.items]
    return page


_HEADER_FIELDS = {
    "Cache-Control": "cacheControl",
    "Content-Disposition": "contentDisposition",
    "Content-Encoding": "contentEncoding",
    "Content-Language": "contentLanguage",
}


def media_headers(stored: StoredObject) -> dict[str, str]:
    """The headers of a download that say which object, which version and what checksums."""
    properties = stored.properties
    md5 = f",md5={stored.md5}" if stored.md5 else ""
    given = {
        header: properties[name] for header, name in _HEADER_FIELDS.items() if properties.get(name)
    }
    return {
        "Content-Type": properties.get("contentType") or "application/octet-stream",
        "Accept-Ranges": "bytes",
        "ETag": stored.etag,
        "Last-Modified": formatdate(stored.updated_s, usegmt=True),
        "X-Goog-Generation": str(stored.generation),
        "X-Goog-Metageneration": str(stored.metageneration),
        "X-Goog-Hash": f"crc32c={stored.crc32c}{md5}",
        "X-Goog-Storage-Class": properties.get("storageClass", "STANDARD"),
        "X-Goog-Stored-Content-Encoding": properties.get("contentEncoding", "identity"),
        "X-Goog-Stored-Content-Length": str(stored.size_bytes),
        **given,
    }


def timestamp(seconds: float) -> str:
    """RFC 3339 in UTC, to the millisecond."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
