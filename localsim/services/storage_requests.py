"""What a request of the JSON API asks for: its target, query, preconditions and JSON body."""

import base64
import binascii
import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote

from aiohttp import web

from localsim.cloud.objects import ObjectKey
from localsim.cloud.objects_listing import MAX_PAGE, ListQuery
from localsim.cloud.objects_model import Hashes, Preconditions, invalid, not_implemented

Query = Mapping[str, str]
MAX_JSON_BYTES = 2 * 1024 * 1024
_UNSUPPORTED_PARAMETERS = (
    "filter",
    "includeTrailingDelimiter",
    "kmsKeyName",
    "matchGlob",
    "softDeleted",
)
_ACL_PARAMETERS = ("predefinedAcl", "predefinedDefaultObjectAcl")
# Everyone who reaches this service is the project's owner, so only these would be broken promises.
_WIDENING_ACLS = ("authenticatedRead", "publicRead", "publicReadWrite")
_GOOG_HASH = re.compile(r"\s*(crc32c|md5)=([A-Za-z0-9+/]+={0,2})\s*")
_INT64 = re.compile(r"-?[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class Call:
    """One request: its method, its path segments and query decoded strictly."""

    request: web.Request
    method: str
    """As the discovery document names it, `storage.objects.insert`."""
    names: Mapping[str, str]
    query: Query

    @property
    def bucket(self) -> str:
        """The bucket named in the path."""
        return self.names["bucket"]

    @property
    def key(self) -> ObjectKey:
        """The object named in the path, and its generation where the query gives one."""
        return ObjectKey(self.bucket, self.names["object"], integer(self.query, "generation"))

    def chunks(self) -> AsyncIterator[bytes]:
        """The body, piece by piece as it arrives."""
        return self.request.content.iter_any()

    @property
    def origin(self) -> str:
        """Scheme and host as the client used them."""
        return f"{self.request.scheme}://{self.request.host}"

    @property
    def preconditions(self) -> Preconditions:
        """The conditions of the query and of the If-Match and If-None-Match headers."""
        return Preconditions(
            generation_match=integer(self.query, "ifGenerationMatch"),
            generation_not_match=integer(self.query, "ifGenerationNotMatch"),
            metageneration_match=integer(self.query, "ifMetagenerationMatch"),
            metageneration_not_match=integer(self.query, "ifMetagenerationNotMatch"),
            etag_match=self.request.headers.get("If-Match"),
            etag_not_match=self.request.headers.get("If-None-Match"),
        )


def decoded(text: str) -> str:
    """Percent-decode one path segment; only UTF-8 will do."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise invalid("The path is not valid percent-encoded UTF-8.") from None


def query_of(text: str) -> Query:
    """Decode a query string, refusing what would change the result if it were ignored."""
    try:
        query = dict(parse_qsl(text, keep_blank_values=True, errors="strict"))
    except ValueError:
        raise invalid("The query is not valid percent-encoded UTF-8.") from None
    for name in _UNSUPPORTED_PARAMETERS:
        if query.get(name, "false") not in ("", "false"):
            raise not_implemented(f"The parameter {name!r}")
    for name in _ACL_PARAMETERS:
        if query.get(name) in _WIDENING_ACLS:
            raise not_implemented(f"{name}={query[name]}")
    return query


def integer(query: Query, name: str) -> int | None:
    """An int64 parameter, None where it is not given."""
    text = query.get(name)
    if text is None:
        return None
    if not _INT64.fullmatch(text):
        raise invalid(f"Invalid value for {name}: {text!r}")
    return int(text)


def required(query: Query, name: str) -> str:
    """A parameter that must be there."""
    if not query.get(name):
        raise invalid(f"Required parameter: {name}")
    return query[name]


def page_limit(query: Query) -> int:
    """How many results a page may hold."""
    limit = integer(query, "maxResults")
    if limit is not None and limit < 0:
        raise invalid(f"Invalid value for maxResults: {limit}")
    return min(limit or MAX_PAGE, MAX_PAGE)


def list_query(query: Query) -> ListQuery:
    """The range, folding and page of an objects.list."""
    return ListQuery(
        prefix=query.get("prefix", ""),
        delimiter=query.get("delimiter", ""),
        start=max(query.get("startOffset", ""), page_start(query)),
        end=query.get("endOffset", ""),
        limit=page_limit(query),
    )


def page_token(start: str | None) -> str | None:
    """An opaque token that says where the next page begins."""
    return None if start is None else base64.urlsafe_b64encode(start.encode()).decode()


def page_start(query: Query) -> str:
    """Where the page of the given token begins; the first page begins at the empty name."""
    try:
        return base64.b64decode(query.get("pageToken", ""), b"-_", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise invalid("Invalid pageToken") from None


async def json_body(request: web.Request) -> dict[str, Any]:
    """The request's JSON object; an absent body is an empty one."""
    try:
        return json_object(await request.read())
    except web.HTTPRequestEntityTooLarge:
        raise invalid("The resource in the body is too large.") from None


def json_object(data: bytes) -> dict[str, Any]:
    """Parse a JSON object."""
    try:
        resource = json.loads(data or b"{}")
    except ValueError:
        raise invalid("Parse Error") from None
    if not isinstance(resource, dict):
        raise invalid("The body must be a JSON object.")
    return resource


def expected_hashes(resource: Mapping[str, Any], request: web.Request) -> Hashes:
    """The checksums the client wants checked: of X-Goog-Hash, Content-MD5, or the resource."""
    given = {"crc32c": resource.get("crc32c"), "md5": resource.get("md5Hash")}
    if "Content-MD5" in request.headers:
        given["md5"] = request.headers["Content-MD5"]
    for item in ",".join(request.headers.getall("X-Goog-Hash", [])).split(","):
        if not item.strip():
            continue
        match = _GOOG_HASH.fullmatch(item)
        if match is None:
            raise invalid("Invalid X-Goog-Hash header.")
        given[match[1]] = match[2]
    if not all(isinstance(value, str | None) for value in given.values()):
        raise invalid("Checksums must be strings.")
    return Hashes(**given)
