"""The parts of a JSON API request: target, query, preconditions and JSON body."""

import base64
import dataclasses
import hashlib
import re
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote

from aiohttp import web

from localsim.rules.objects.buckets.object_access import ObjectAccess
from localsim.rules.objects.listing import MAX_PAGE, ListQuery
from localsim.rules.objects.storage_model import (
    Hashes,
    ObjectKey,
    Preconditions,
    StorageError,
    StoredObject,
    invalid,
    not_implemented,
)
from localsim.services.rest.json_messages import load_json
from localsim.services.rest.rest_fields import Mask
from localsim.services.storage.wire.json_errors import (
    ParameterError,
    check_json_type,
    missing_parameter,
)
from localsim.services.storage.wire.request_faults import CallFaults
from localsim.services.storage.wire.request_trace import NO_TRACE, RequestTrace

Query = Mapping[str, str]
ACCOUNT = "storage.account"
"""Where a request carries the account that sent it, if it had to have one."""
CONTENT_SHA256 = web.RequestKey("CONTENT_SHA256", str)
"""Where a request carries the hexadecimal SHA-256 that its signature says its body has."""
MAX_JSON_BYTES = 2 * 1024 * 1024
DEFAULT_TYPE = "application/octet-stream"
"""The content type of an object for which the client names none."""
_UNSUPPORTED_PARAMETERS = (
    "destinationKmsKeyName",
    "enableObjectRetention",
    "filter",
    "kmsKeyName",
    "restoreToken",
    "softDeleted",
)
_PROJECTIONS = ("", "full", "noAcl")
_GOOG_HASH = re.compile(r"\s*(crc32c|md5)=([A-Za-z0-9+/]+={0,2})\s*")
_FORMS = ("json", "media")
_INT64 = re.compile(r"-?[0-9]{1,19}")


@dataclasses.dataclass(frozen=True, slots=True)
class StorageCall:
    """One request: its method, and its strictly decoded path and query."""

    request: web.Request
    method: str
    """As the discovery document names it, `storage.objects.insert`."""
    names: Mapping[str, str]
    query: Query
    fields: Mask = dataclasses.field(default_factory=dict)
    """What of the reply is asked for; an empty mask is everything."""
    effects: CallFaults | None = None
    """What goes wrong with it on purpose."""
    trace: RequestTrace = NO_TRACE
    """What is seen of it."""
    sent: set[str] = dataclasses.field(default_factory=set)
    """The fields of its body that change what the reply shows."""
    access_of: Callable[[StoredObject], ObjectAccess | None] = lambda _stored: None
    """Returns owner and access control list of an object; None with uniform access."""

    @property
    def bucket(self) -> str:
        """The bucket named in the path."""
        return self.names["bucket"]

    @property
    def key(self) -> ObjectKey:
        """The object named in the path, and its generation where the query gives one."""
        return ObjectKey(
            self.bucket, self.names["object"], integer_parameter(self.query, "generation")
        )

    def chunks(self) -> AsyncIterator[bytes]:
        """The body, piece by piece as it arrives."""
        chunks = self.trace.received(aiter(self.request.content.iter_any()))
        if CONTENT_SHA256 in self.request:
            chunks = _hashed(chunks, self.request[CONTENT_SHA256])
        return chunks if self.effects is None else self.effects.received(chunks)

    @property
    def origin(self) -> str:
        """Scheme and host as the client used them."""
        return f"{self.request.scheme}://{self.request.host}"

    @property
    def preconditions(self) -> Preconditions:
        """The conditions of the query and of the If-Match and If-None-Match headers."""
        return dataclasses.replace(
            self._conditions("if"),
            etag_match=self.request.headers.get("If-Match"),
            etag_not_match=self.request.headers.get("If-None-Match"),
        )

    @property
    def source_preconditions(self) -> Preconditions:
        """The preconditions on the source of a copy, rewrite or move."""
        return self._conditions("ifSource")

    def _conditions(self, prefix: str) -> Preconditions:
        return Preconditions(
            generation_match=integer_parameter(self.query, f"{prefix}GenerationMatch"),
            generation_not_match=integer_parameter(self.query, f"{prefix}GenerationNotMatch"),
            metageneration_match=integer_parameter(self.query, f"{prefix}MetagenerationMatch"),
            metageneration_not_match=integer_parameter(
                self.query, f"{prefix}MetagenerationNotMatch"
            ),
        )


async def _hashed(chunks: AsyncIterable[bytes], wanted: str) -> AsyncIterator[bytes]:
    """The same bytes; raises StorageError behind the last one when their SHA-256 is another."""
    digest = hashlib.sha256()
    async for data in chunks:
        digest.update(data)
        yield data
    if digest.hexdigest() != wanted:
        message = "The SHA-256 you signed did not match what we received."
        raise StorageError(400, "BadDigest", message)


def decode_segment(text: str) -> str:
    """Percent-decode one path segment; raises StorageError unless it is UTF-8."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise invalid("The path is not valid percent-encoded UTF-8.") from None


def decode_query(text: str) -> Query:
    """The parameters of a query string; raises StorageError unless it is UTF-8."""
    try:
        return dict(parse_qsl(text, keep_blank_values=True, errors="strict"))
    except ValueError:
        raise invalid("The query is not valid percent-encoded UTF-8.") from None


def parse_query(text: str) -> Query:
    """Decode a query string; parameters that would change the result if ignored are refused."""
    query = decode_query(text)
    for name in _UNSUPPORTED_PARAMETERS:
        if query.get(name, "").lower() not in ("", "false"):
            raise not_implemented(f"The parameter {name!r}")
    projection = query.get("projection", "")
    if projection not in _PROJECTIONS:
        raise ParameterError("projection", f"Invalid value for projection: {projection!r}")
    if query.get("alt", "json") not in _FORMS:
        raise ParameterError("alt", f"Invalid value for alt: {query['alt']!r}", "invalidAltValue")
    return query


def integer_parameter(query: Query, name: str) -> int | None:
    """An int64 parameter; None where it is absent or empty."""
    text = query.get(name)
    if not text:
        return None
    value = parse_int64(text)
    if value is None:
        raise ParameterError(name, f"Invalid value for {name}: {text!r}")
    return value


def parse_int64(text: str) -> int | None:
    """The int64 that a text spells, else None."""
    value = int(text) if _INT64.fullmatch(text) else None
    return value if value is not None and -(2**63) <= value < 2**63 else None


def flag_parameter(query: Query, name: str) -> bool:
    """A boolean parameter, by default false; Python's clients write `True`."""
    text = query.get(name, "").lower()
    if text not in ("", "false", "true"):
        raise ParameterError(name, f"Invalid value for {name}: {query[name]!r}")
    return text == "true"


def required_parameter(query: Query, name: str) -> str:
    """A parameter that must be there; raises ParameterError."""
    if not query.get(name):
        raise missing_parameter(name)
    return query[name]


def page_limit(query: Query) -> int:
    """The largest number of results on a page."""
    limit = integer_parameter(query, "maxResults")
    if limit is not None and limit < 0:
        raise ParameterError("maxResults", f"Invalid value for maxResults: {limit}")
    return min(limit or MAX_PAGE, MAX_PAGE)


def list_query(query: Query) -> ListQuery:
    """The names, folding and page that an objects.list asks for."""
    token_start, generation = page_start(query)
    return ListQuery(
        prefix=query.get("prefix", ""),
        delimiter=query.get("delimiter", ""),
        start=max(query.get("startOffset", ""), token_start),
        start_generation=generation,
        end=query.get("endOffset", ""),
        limit=page_limit(query),
        versions=flag_parameter(query, "versions"),
        match_glob=query.get("matchGlob", ""),
        include_trailing_delimiter=flag_parameter(query, "includeTrailingDelimiter"),
    )


def page_token(start: str, generation: int = 0) -> str:
    """An opaque token for the name, and generation, at which the next page begins."""
    return base64.urlsafe_b64encode(f"{generation}/{start}".encode()).decode()


def page_start(query: Query) -> tuple[str, int]:
    """The name and generation at which a token's page begins; empty for the first page."""
    token = query.get("pageToken")
    if not token:
        return "", 0
    try:
        text = base64.b64decode(token, b"-_", validate=True).decode()
    except ValueError:
        text = ""
    generation, slash, start = text.partition("/")
    number = parse_int64(generation)
    if not slash or number is None:
        raise ParameterError("pageToken", "Invalid pageToken")
    return start, number


async def read_all(chunks: AsyncIterable[bytes], most_bytes: int, refusal: StorageError) -> bytes:
    """A body from its pieces; raises the refusal when it has more bytes than that."""
    data = bytearray()
    async for chunk in chunks:
        data += chunk
        if len(data) > most_bytes:
            raise refusal
    return bytes(data)


async def read_json_body(request: web.Request) -> dict[str, Any]:
    """The request's JSON object; an absent body is an empty one. Raises StorageError."""
    if request.body_exists:
        check_json_type(request)
    try:
        return parse_json_object(await request.read())
    except web.HTTPRequestEntityTooLarge:
        raise invalid("The resource in the body is too large.") from None


def parse_json_object(data: bytes) -> dict[str, Any]:
    """Parse a JSON object."""
    try:
        resource = load_json(data)
    except (ValueError, RecursionError):
        raise StorageError(400, "parseError", "Parse Error") from None
    if resource is None:  # Google's client for Go spells an absent body so
        return {}
    if not isinstance(resource, dict):
        raise invalid("The body must be a JSON object.")
    return resource


def expected_hashes(resource: Mapping[str, Any], call: StorageCall) -> Hashes:
    """The checksums the client wants checked: of X-Goog-Hash, Content-MD5, or the resource."""
    headers = call.request.headers
    given = {"crc32c": resource.get("crc32c"), "md5": resource.get("md5Hash")}
    if "Content-MD5" in headers:
        given["md5"] = headers["Content-MD5"]
    for item in ",".join(headers.getall("X-Goog-Hash", [])).split(","):
        if not item.strip():
            continue
        match = _GOOG_HASH.fullmatch(item)
        if match is None:
            raise invalid("Invalid X-Goog-Hash header.")
        given[match[1]] = match[2]
    if not all(isinstance(value, str | None) for value in given.values()):
        raise invalid("Checksums must be strings.")
    wants_md5 = not call.fields or not call.fields.keys().isdisjoint({"md5Hash", "*"})
    return Hashes(given["crc32c"], given["md5"], wants_md5=wants_md5)
